#include "sim/exhaustive/checkpoint.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace conch::sim {

namespace {

/// All of it, also the zeros at the end.
std::string whole(path const& p) {
  std::string text = "/";
  for (auto const n : p) text += std::to_string(n) + ".";
  return text;
}

path read_whole(std::string const& text) { return path_of(std::string_view{text}.substr(1)); }

}  // namespace

void write(checkpoint const& c, std::string const& file) {
  std::string const half = file + ".new";
  std::ofstream out{half};
  out << c.of << '\n'
      << c.runs << ' ' << c.orders << ' ' << c.cut_off << ' ' << c.states << ' ' << c.seconds << ' ' << c.parts << '\n';
  for (part_left const& one : c.left) out << whole(one.below) << ' ' << whole(one.at) << '\n';
  out.close();
  if (!out || std::rename(half.c_str(), file.c_str()) != 0) throw std::runtime_error{"cannot write " + file};
}

checkpoint read_checkpoint(std::string const& file, std::string const& of) {
  checkpoint c;
  c.of = of;
  std::ifstream in{file};
  if (!in) return c;
  std::string its;
  std::getline(in, its);
  if (its != of) throw std::runtime_error{file + " is of another exploration: " + its};
  if (!(in >> c.runs >> c.orders >> c.cut_off >> c.states >> c.seconds >> c.parts))
    throw std::runtime_error{file + " is damaged"};
  for (std::string below, at; in >> below >> at;) c.left.push_back({read_whole(below), read_whole(at)});
  return c;
}

}  // namespace conch::sim
