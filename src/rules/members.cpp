// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "rules/members.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <charconv>

namespace conch::rules {

namespace {

void append(std::string& text, sender const& s) {
  text.append(s.client).push_back('.');
  char digits[engine::longest_grant_id];
  text.append(digits, engine::write_grant_id(digits, s.number));
}

}  // namespace

std::string sender::text() const {
  std::string text;
  text.reserve(client.size() + 1 + engine::longest_grant_id);
  append(text, *this);
  return text;
}

owner* owners::find(sender const& s) {
  if (all_.size() <= 1) return !all_.empty() && all_.begin()->second.who.is(s) ? &all_.begin()->second : nullptr;
  auto const [first, last] = all_.equal_range(s.number);
  for (auto it = first; it != last; ++it) {
    if (it->second.who.is(s)) return &it->second;
  }
  return nullptr;
}

owner& owners::add(sender const& s, owner const& o) {
  BOOST_ASSERT_MSG(find(s) == nullptr, "added twice");
  if (spare_.empty()) spare_ = all_.extract(all_.emplace(engine::grant_id{}, owner{}));
  spare_.key() = s.number;
  owner& made = all_.insert(std::move(spare_))->second;
  std::string text = std::move(made.who.text);  // its memory is used again
  made = o;
  text.clear();
  append(text, s);
  made.who = {std::move(text), s.number};
  taken_ += made.size;
  if (all_.size() == 2) {
    for (auto& [number, each] : all_) note_end(each);
  } else if (all_.size() > 2) {
    note_end(made);
  }
  return made;
}

void owners::note_end(owner& o) {
  o.noted_end = o.ends;
  ends_.emplace(o.ends, &o);
}

void owners::remove(owner& o) {
  taken_ -= o.size;
  if (all_.size() > 2) {
    ends_.erase({o.noted_end, &o});
  } else {
    ends_.clear();
  }
  auto it = all_.begin();
  if (all_.size() > 1) it = all_.equal_range(o.who.number).first;
  while (&it->second != &o) ++it;
  spare_ = all_.extract(it);
}

void owners::resize(owner& o, std::int64_t size) {
  taken_ += size - o.size;
  o.size = size;
}

void owners::clear() {
  while (!all_.empty()) remove(all_.begin()->second);
}

owner& owners::first_to_end() {
  if (all_.size() == 1) return all_.begin()->second;
  for (;;) {
    auto const first = ends_.begin();
    owner& o = *first->second;
    if (o.noted_end == o.ends) return o;
    ends_.erase(first);
    note_end(o);
  }
}

waiter::wish waiter::wants() const {
  std::string_view const text = who.text;
  auto const first = text.find(' ');
  if (first == std::string_view::npos) return {.id = text, .unwanted = {}};
  auto const second = text.find(' ', first + 1);
  BOOST_ASSERT_MSG(second != std::string_view::npos, "an entry of the line that no kind of lock makes");
  wish w{.id = text.substr(0, first), .unwanted = text.substr(second + 1), .size = 0, .of_mutex = false};
  std::from_chars(text.data() + first + 1, text.data() + second, w.size);
  return w;
}

line::iterator line::after(std::int64_t ticket) const { return all_.lower_bound(waiter{ticket + 1, {}}); }

line::iterator line::find(std::string_view text) const {
  auto const found = by_text_.find(text);
  return found == by_text_.end() ? all_.end() : found->second;
}

void line::add(waiter w) {
  auto const [it, is_new] = all_.insert(std::move(w));
  BOOST_ASSERT_MSG(is_new, "it waits already");
  by_text_.emplace(it->who.text, it);
}

line::iterator line::remove(iterator w) {
  by_text_.erase(w->who.text);
  return all_.erase(w);
}

void line::clear() {
  by_text_.clear();
  all_.clear();
}

}  // namespace conch::rules
