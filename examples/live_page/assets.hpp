#pragma once

#include <string_view>

namespace live_page {

// The build embeds page.html, page.css and page.js.
extern std::string_view const page_html;
extern std::string_view const page_css;
extern std::string_view const page_js;

}  // namespace live_page
