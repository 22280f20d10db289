// Runs a fuzz target over files, without libFuzzer: the corpus is a regression test in every build.
//
//   conch_NAME_replay FOLDER-OR-FILE...
//
// Fails when a folder holds no file: an empty corpus proves nothing.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

void run(fs::path const& file) {
  // Named before it runs, so that the output of a crash ends with the culprit.
  std::printf("%s\n", file.c_str());
  std::fflush(stdout);
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw std::runtime_error("cannot read " + file.string());
  }
  std::string const bytes{std::istreambuf_iterator<char>(in), {}};
  // A copy of exactly this size on the heap: a read past the end is then seen by AddressSanitizer.
  std::vector<std::uint8_t> const input(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

std::size_t run_all(fs::path const& path) {
  if (!fs::is_directory(path)) {
    run(path);
    return 1;
  }
  std::size_t count = 0;
  for (auto const& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) {
      run(entry.path());
      ++count;
    }
  }
  if (count == 0) {
    throw std::runtime_error("no file in " + path.string());
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::size_t count = 0;
    for (int i = 1; i < argc; ++i) {
      count += run_all(argv[i]);
    }
    if (count == 0) {
      throw std::runtime_error("usage: conch_NAME_replay FOLDER-OR-FILE...");
    }
    std::printf("%zu inputs\n", count);
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
