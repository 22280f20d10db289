#include "support/certificates.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace conch::test {

namespace fs = std::filesystem;

namespace {

constexpr char const* new_key = " -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

}  // namespace

certificates::certificates() {
  std::string pattern = (fs::temp_directory_path() / "conch-tls-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), "mkdtemp " + pattern);
  directory_ = pattern;
}

certificates::~certificates() {
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

void certificates::run(std::string const& arguments) {
  std::string const log = path("log");
  std::string const command = "cd '" + directory_.string() + "' && openssl " + arguments + " >log 2>&1 </dev/null";
  if (std::system(command.c_str()) == 0) return;  // NOLINT(cert-env33-c): the arguments are ours
  std::ifstream in(log, std::ios::binary);
  throw std::runtime_error("openssl " + arguments + "\n" + std::string{std::istreambuf_iterator<char>(in), {}});
}

void certificates::authority(std::string const& name) {
  run("req -x509 -days 2 -subj '/CN=" + name + "' -addext keyUsage=critical,keyCertSign -keyout " + name +
      ".key -out " + name + ".crt" + new_key);
}

void certificates::signed_by(std::string const& authority, std::string const& name, std::string const& names) {
  run("req -x509 -days 2 -CA " + authority + ".crt -CAkey " + authority + ".key -subj '/CN=" + name +
      "' -addext basicConstraints=critical,CA:FALSE" + (names.empty() ? "" : " -addext subjectAltName=" + names) +
      " -keyout " + name + ".key -out " + name + ".crt" + new_key);
}

void certificates::expired(std::string const& authority, std::string const& name, std::string const& names) {
  run("req -new -subj '/CN=" + name + "' -addext subjectAltName=" + names + " -keyout " + name + ".key -out " + name +
      ".csr" + new_key);
  std::ofstream{path("index")};
  std::ofstream{path("ca.conf")}
      << "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n"
         "copy_extensions=copy\nunique_subject=no\n[p]\ncommonName=supplied\n";
  run("ca -batch -config ca.conf -cert " + authority + ".crt -keyfile " + authority +
      ".key -startdate 20200101000000Z -enddate 20210101000000Z -in " + name + ".csr -out " + name + ".crt");
}

void certificates::self_signed(std::string const& name, std::string const& names) {
  run("req -x509 -days 2 -subj '/CN=" + name + "' -addext subjectAltName=" + names + " -keyout " + name + ".key -out " +
      name + ".crt" + new_key);
}

void certificates::replace(std::string const& file, std::string const& by) {
  fs::copy_file(path(by), path("new"), fs::copy_options::overwrite_existing);
  fs::rename(path("new"), path(file));
}

}  // namespace conch::test
