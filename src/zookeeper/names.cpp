// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "zookeeper/names.hpp"

#include "base/mutant.hpp"
#include "base/numbers.hpp"

namespace conch::zookeeper {

std::string root_of(std::string_view chroot, std::string_view key_prefix) {
  while (key_prefix.ends_with(':')) key_prefix.remove_suffix(1);
  return folder_of(chroot, key_prefix.empty() ? std::string_view{"conch"} : key_prefix);
}

std::string encoded(std::string_view name) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  bool const reserved = name == "zookeeper";  // of the server, below its root
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    auto const c = static_cast<unsigned char>(name[i]);
    bool const first = i == 0 && (c == '.' || reserved);  // "." and ".." are not allowed; ".clients" is ours
    if (first || c <= 0x1f || c >= 0x7f || c == '/' || c == '%') {
      text += '%';
      text += digits[c >> 4];
      text += digits[c & 15];
    } else {
      text += name[i];
    }
  }
  return text;
}

std::optional<node_name> read_node_name(std::string_view name) {
  std::size_t const dot = name.find('.');
  std::size_t const dash = name.find('-', dot == std::string_view::npos ? name.size() : dot);
  if (dash == std::string_view::npos) return std::nullopt;
  auto const number = whole_number<std::uint64_t>(name.substr(dot + 1, dash - dot - 1));
  auto const sequence = whole_number<std::int32_t>(name.substr(dash + 1));  // behind the wrap it has a sign: "--2147483648"
  if (!number || !sequence) return std::nullopt;
  return node_name{name.substr(0, dot), *number, *sequence};
}

std::string node_prefix(std::string_view client, std::uint64_t number) { return std::string{client} + '.' + std::to_string(number) + '-'; }

bool is_before(std::int32_t a, std::int32_t b) noexcept {
  if (CONCH_MUTANT(sequence_as_text)) return std::to_string(a) < std::to_string(b);
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b)) < 0;
}

std::string_view last_of(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

}  // namespace conch::zookeeper
