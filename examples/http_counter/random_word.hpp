#pragma once

#include <string>

namespace http_counter {

/// 32 hexadecimal digits that nobody can guess.
std::string random_word();

}  // namespace http_counter
