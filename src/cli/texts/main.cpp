// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/texts/generated.hpp"

#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

// conch-texts --check|--write FOLDER: the texts of the command that are kept in the tree, which is in FOLDER.
// scripts/cli_texts runs it.
namespace conch::cli::texts {

namespace {

std::string content_of(std::string const& path) {
  std::ifstream in{path};
  if (!in) throw std::runtime_error{"it cannot be read"};
  return {std::istreambuf_iterator<char>{in}, {}};
}

void write(std::string const& path, std::string const& text) {
  std::ofstream out{path, std::ios::trunc};
  out << text << std::flush;
  if (!out) throw std::runtime_error{"it cannot be written"};
}

/// Is the file as it should be, or has it been written?
bool is_renewed(std::string const& path, blocks const& made, bool writes) {
  std::string const before = content_of(path), now = renewed(before, made);
  if (before == now) return true;
  if (writes) write(path, now);
  std::cout << path << (writes ? ": written\n" : ": out of date; scripts/cli_texts --write renews it\n");
  return writes;
}

int run(std::string const& folder, bool writes) {
  int code = 0;
  for (generated_file const& one : generated_files()) {
    std::string const path = folder + '/' + one.path;
    try {
      if (!is_renewed(path, one.made(), writes)) code = 1;
    } catch (std::exception const& error) {
      std::cerr << path << ": " << error.what() << '\n';
      code = 1;
    }
  }
  return code;
}

}  // namespace
}  // namespace conch::cli::texts

int main(int argc, char** argv) {
  std::string_view const mode = argc == 3 ? argv[1] : "";
  if (mode == "--check" || mode == "--write") return conch::cli::texts::run(argv[2], mode == "--write");
  std::cerr << "conch-texts --check|--write FOLDER\n";
  return 2;
}
