// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/identity.hpp"

#include "base/introduction.hpp"
#include "base/readable.hpp"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <random>

namespace conch::detail {

std::string new_client_id() {
  // std::random_device is the kernel's generator on every platform with a supported compiler.
  std::random_device source;
  return id_of({source(), source(), source(), source()});
}

namespace {

/// The beginning of a text as a label may have it.
std::string as_label(std::string_view text, std::size_t most) {
  std::size_t size = std::min(text.size(), most);
  if (size < text.size())
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0u) == 0x80) --size;  // inside a UTF-8 character
  std::string label{text.substr(0, size)};
  if (printable(label) != label)
    std::replace_if(
        label.begin(), label.end(), [](char c) { return c <= ' ' || c > '~' || c == '\\'; }, '?');
  return label;
}

}  // namespace

std::string label_of(std::string_view program) {
  char host[65] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  std::string const process = ':' + std::to_string(::getpid());
  std::size_t const left = longest_label - process.size();
  std::string const name = as_label(program, left / 2) + '@';
  // What is left out is the end of the host: the process distinguishes two of them.
  return name + as_label(host, left - name.size()) + process;
}

std::string this_program() { return program_invocation_short_name; }

std::uint64_t seed_of(std::string_view id) noexcept { return std::hash<std::string_view>{}(id); }

}  // namespace conch::detail
