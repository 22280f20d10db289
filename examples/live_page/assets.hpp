#pragma once

#include <string_view>

namespace live_page {

// page.html, page.css and page.js, as the build has embedded them.
extern std::string_view const page_html;
extern std::string_view const page_css;
extern std::string_view const page_js;

}  // namespace live_page
