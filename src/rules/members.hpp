// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

// The owners of a lock, and its line. Neither takes much longer where there are many: both find by id and by order.
namespace conch::rules {

using us = std::int64_t;  // microseconds: since 1970, by the server's clock
using ms = std::int64_t;

/// The client that sends a request, and the number of that request. As text "CLIENT.N".
struct sender {
  std::string_view client;
  engine::grant_id number;

  std::string text() const;
};

/// A sender that is remembered. In the line of a lock with several owners, what it wants is a part of its text:
/// "CLIENT.N SIZE UNWANTED".
struct id {
  std::string text;
  engine::grant_id number;

  std::string_view client() const { return std::string_view{text}.substr(0, text.find('.')); }
  bool is(sender const& s) const {
    return number == s.number && text.starts_with(s.client) && text[s.client.size()] == '.';
  }
};

struct owner {
  id who;
  std::int64_t size = 1;     // of the limit
  std::int64_t segment = 0;  // its number, in a lock with segments
  std::int64_t fence = 0;
  us ends = 0;           // it is an owner before this moment, and not at it
  bool claimed = false;  // it was granted by a push and has not renewed yet, or is a vote that is not confirmed yet

  us noted_end = 0;  // of class owners
};

class owners {
  using by_number = std::unordered_multimap<engine::grant_id, owner>;

 public:
  owners() = default;
  owners(owners const&) = delete;
  owners& operator=(owners const&) = delete;

  bool empty() const noexcept { return all_.empty(); }
  std::size_t size() const noexcept { return all_.size(); }
  std::int64_t taken() const noexcept { return taken_; }  // all sizes together
  by_number::const_iterator begin() const { return all_.begin(); }
  by_number::const_iterator end() const { return all_.end(); }

  /// nullptr: it is not an owner.
  owner* find(sender const& s);
  /// `s` is not an owner yet.
  owner& add(sender const& s, owner const& o);
  void remove(owner& o);
  void resize(owner& o, std::int64_t size);
  void clear();

  /// The owner whose lease ends first. There must be one.
  owner& first_to_end();

 private:
  void note_end(owner& o);

  by_number all_;
  by_number::node_type spare_;  // so that a lock that is taken and given back in turns does not allocate
  std::int64_t taken_ = 0;
  // If there are two or more: by noted_end, before which the lease does not end. A renewal changes nothing here.
  std::set<std::pair<us, owner*>> ends_;
};

struct waiter {
  std::int64_t ticket = 0;
  id who;

  /// What its text contains.
  struct wish {
    std::string_view id, unwanted;
    std::int64_t size = 1;
    bool of_mutex = true;
  };
  wish wants() const;

  /// If tickets are equal, the lesser text is first.
  friend bool operator<(waiter const& a, waiter const& b) {
    return a.ticket != b.ticket ? a.ticket < b.ticket : a.who.text < b.who.text;
  }
};

class line {
  using in_order = std::set<waiter>;

 public:
  using iterator = in_order::const_iterator;

  line() = default;
  line(line const&) = delete;
  line& operator=(line const&) = delete;

  bool empty() const noexcept { return all_.empty(); }
  std::size_t size() const noexcept { return all_.size(); }
  iterator begin() const { return all_.begin(); }
  iterator end() const { return all_.end(); }
  /// The first with a greater ticket.
  iterator after(std::int64_t ticket) const;
  std::int64_t last_ticket() const { return all_.rbegin()->ticket; }

  iterator find(std::string_view text) const;
  /// `w` does not wait yet.
  void add(waiter w);
  iterator remove(iterator w);
  void clear();

 private:
  in_order all_;
  std::unordered_map<std::string_view, iterator> by_text_;  // views into `all_`
};

}  // namespace conch::rules
