#pragma once

// The names of this program, in place of the C library's: what getaddrinfo finds for those that end in ".test".

#include <cstddef>
#include <string>
#include <vector>

namespace conch::test {

/// "A_B.addresses.test" has the addresses A and B, in this order. Others have what a test says, for as long as this
/// lives.
class fake_names {
 public:
  fake_names();
  fake_names(fake_names const&) = delete;
  fake_names& operator=(fake_names const&) = delete;
  /// Those that hang find nothing any more.
  ~fake_names();

  void mean(std::string const& name, std::vector<std::string> addresses);
  /// Look-ups of it wait until it means something.
  void hang(std::string const& name);
  /// Those that wait for it now wait until this ends. Later look-ups get the addresses.
  void strand(std::string const& name, std::vector<std::string> addresses);
  /// How many threads wait for it now.
  std::size_t waiting_for(std::string const& name) const;
  /// How often getaddrinfo was called, for whatever name.
  static std::size_t questions();
};

}  // namespace conch::test
