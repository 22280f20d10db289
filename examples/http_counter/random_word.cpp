#include "random_word.hpp"

#include <random>

namespace http_counter {

std::string random_word() {
  std::random_device source;
  std::string word;
  for (int i = 0; i < 32; ++i) {
    word += "0123456789abcdef"[source() % 16];
  }
  return word;
}

}  // namespace http_counter
