#pragma once

#include <string>

namespace http_counter {

/// 32 hexadecimal digits that cannot be guessed.
std::string random_word();

}  // namespace http_counter
