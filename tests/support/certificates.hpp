#pragma once

#include <filesystem>
#include <string>

namespace conch::test {

/// Certificates for one test, made by the openssl command in a folder of its own: `NAME.crt` and `NAME.key`.
///
/// Failures throw `std::runtime_error` with what openssl said.
class certificates {
 public:
  certificates();
  ~certificates();
  certificates(certificates const&) = delete;
  certificates& operator=(certificates const&) = delete;

  /// An authority, signed by itself.
  void authority(std::string const& name);

  /// A certificate of that authority. `names` as in openssl: "DNS:a.test,IP:127.0.0.1"; empty: it has only its common
  /// name, `name`.
  void signed_by(std::string const& authority, std::string const& name, std::string const& names);

  /// The same, but expired.
  void expired(std::string const& authority, std::string const& name, std::string const& names);

  /// One that no authority has signed.
  void self_signed(std::string const& name, std::string const& names);

  /// Puts a file in the place of another, as a whole.
  void replace(std::string const& file, std::string const& by);

  std::string path(std::string const& file) const { return (directory_ / file).string(); }
  std::string certificate(std::string const& name) const { return path(name + ".crt"); }
  std::string key(std::string const& name) const { return path(name + ".key"); }

 private:
  void run(std::string const& arguments);

  std::filesystem::path directory_;
};

}  // namespace conch::test
