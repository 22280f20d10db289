// Texts from outside, as they are shown: nothing that a terminal obeys is left, a name can be read back, and no secret
// is in what is shown.
//
// The first byte says how long the secret is, which follows; the rest is the text. Then the text repeats the secret.

#include "base/readable.hpp"
#include "base/secrets.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "printable_fuzz: %s\n", what);
  std::abort();
}

std::string read_back(std::string_view spelling) {
  std::string name;
  for (std::size_t i = 0; i < spelling.size(); ++i) {
    if (spelling[i] != '\\') {
      name += spelling[i];
    } else if (spelling.substr(i, 2) == "\\x") {
      name += static_cast<char>(std::stoi(std::string{spelling.substr(i + 2, 2)}, nullptr, 16));
      i += 3;
    } else {
      name += spelling[++i];
    }
  }
  return name;
}

bool is_harmless(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view input{reinterpret_cast<char const*>(data), size};
  if (input.empty()) return 0;
  std::size_t const length = std::min<std::size_t>(static_cast<unsigned char>(input[0]), input.size() - 1);
  std::string const password{input.substr(1, length)};
  std::string_view const text = input.substr(1 + length);

  std::string const spelling = conch::printable(text), sentence = conch::in_quotes(text, std::string_view::npos);
  require(is_harmless(spelling) && is_harmless(sentence), "a terminal would obey it");
  require(read_back(spelling) == text, "a name that cannot be read back");
  require(read_back(sentence.substr(1, sentence.size() - 2)) == text, "a name in a sentence that cannot be read back");
  for (std::size_t const most : {4U, 20U, 200U}) {
    require(conch::printable(text, most).size() <= most, "longer than it may be");
    require(conch::readable(text, most).size() <= most, "longer than it may be");
  }

  conch::secret const kept{password};
  std::string const shown = conch::readable(text);
  require(is_harmless(shown), "a terminal would obey it");
  // Letters and digits only: a password of others may consist of what the mask, or an escape, consists of.
  bool const is_plain = password.size() >= 6 && std::all_of(password.begin(), password.end(), [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
                        });
  if (is_plain) {
    std::string const repeated = conch::readable(std::string{text.substr(0, 100)} + " '" + password + "'", 10'000);
    require(repeated.find(password) == std::string::npos, "a secret is shown");
  }
  return 0;
}
