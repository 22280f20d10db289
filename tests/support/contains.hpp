#pragma once

#include <string_view>

namespace conch::test {

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace conch::test
