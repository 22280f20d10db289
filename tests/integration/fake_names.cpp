#include "integration/fake_names.hpp"

#include <dlfcn.h>
#include <netdb.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string_view>

namespace conch::test {
namespace {

struct entry {
  bool hangs = false;
  std::size_t strands = 0;  // how many asked before the last of them
  bool frees = false;       // those, too
  std::size_t waiting = 0;
  std::vector<std::string> addresses;
};

/// Never destroyed: a thread may wait here when the program ends.
struct book {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, entry, std::less<>> names;
  std::atomic<std::size_t> questions{0};
};

book& all() {
  static auto* const one = new book;
  return *one;
}

using real_function = int (*)(char const*, char const*, addrinfo const*, addrinfo**);

real_function real() {
  static auto const found = reinterpret_cast<real_function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return found;
}

int join(std::vector<std::string> const& addresses, char const* service, addrinfo const* hints, addrinfo** found) {
  if (addresses.empty()) return EAI_NONAME;
  for (std::string const& one : addresses) {
    if (int const failed = real()(one.c_str(), service, hints, found); failed != 0) return failed;
    while (*found != nullptr) found = &(*found)->ai_next;  // freeaddrinfo frees them one by one
  }
  return 0;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    std::size_t const end = std::min(list.find('_', at), list.size());
    parts.emplace_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

fake_names::fake_names() = default;

fake_names::~fake_names() {
  std::lock_guard const guard{all().mutex};
  for (auto& [name, one] : all().names) one.hangs = false, one.frees = true, one.addresses.clear();
  all().changed.notify_all();
}

void fake_names::mean(std::string const& name, std::vector<std::string> addresses) {
  std::lock_guard const guard{all().mutex};
  entry& one = all().names[name];
  one.hangs = false;
  one.addresses = std::move(addresses);
  all().changed.notify_all();
}

void fake_names::hang(std::string const& name) {
  std::lock_guard const guard{all().mutex};
  all().names[name].hangs = true;
}

void fake_names::strand(std::string const& name, std::vector<std::string> addresses) {
  std::lock_guard const guard{all().mutex};
  entry& one = all().names[name];
  ++one.strands;
  one.hangs = one.frees = false;
  one.addresses = std::move(addresses);
}

std::size_t fake_names::waiting_for(std::string const& name) const {
  std::lock_guard const guard{all().mutex};
  return all().names[name].waiting;
}

std::size_t fake_names::questions() { return all().questions; }

/// What the program calls instead of the C library's.
int find_address(char const* host, char const* service, addrinfo const* hints, addrinfo** found) {
  ++all().questions;
  constexpr std::string_view in_name = ".addresses.test";
  std::string_view const name = host != nullptr ? host : "";
  if (!name.ends_with(".test")) return real()(host, service, hints, found);
  if (name.ends_with(in_name)) return join(split(name.substr(0, name.size() - in_name.size())), service, hints, found);
  std::unique_lock guard{all().mutex};
  auto const at = all().names.find(name);
  if (at == all().names.end()) return EAI_NONAME;
  entry& one = at->second;  // entries stay
  ++one.waiting;
  all().changed.wait(guard, [&, before = one.strands] { return !one.hangs && (one.strands == before || one.frees); });
  --one.waiting;
  std::vector<std::string> const addresses = one.addresses;
  guard.unlock();
  return join(addresses, service, hints, found);
}

}  // namespace conch::test

extern "C" int getaddrinfo(char const* host, char const* service, addrinfo const* hints, addrinfo** found) {
  return conch::test::find_address(host, service, hints, found);
}
