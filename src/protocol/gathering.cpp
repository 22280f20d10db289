// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/gathering.hpp"

#include <algorithm>
#include <string_view>
#include <variant>

namespace conch::protocol {

bool gathering::fits(terms const& t, std::string_view name, waiting w) const noexcept {
  if (size_ == 0) return true;
  if (size_ == most || t != terms_) return false;
  if (w != waiting::unknown && waits_ != waiting::unknown && w != waits_) return false;
  // The second of two commands for one lock relies on what the first has done, but the script reads the lock only once.
  return std::none_of(members_.begin(), members_.begin() + static_cast<std::ptrdiff_t>(size_),
                      [&](member const& m) { return m.name == name; });
}

gathering::member& gathering::next(terms const& t, std::string_view name, waiting w) {
  if (size_ == 0) {
    terms_ = t;
    waits_ = waiting::unknown;
    acquires_ = 0;
  }
  if (w != waiting::unknown) waits_ = w;
  member& m = members_[size_++];
  m.name.assign(name);
  return m;
}

bool gathering::add(command const& c, unsigned slot) {
  if (auto const* const a = std::get_if<acquire_command>(&c)) {
    // For one that is patient, not even the usual case is that of the script.
    if (a->with_source || a->permit != nullptr || a->patient || !a->origin.empty()) return false;
    terms const t{a->lease, a->claim, a->retention, a->proposal != 0, slot};
    waiting const w = a->wait ? waiting::yes : waiting::no;
    if (!fits(t, a->name, w)) return false;
    member& m = next(t, a->name, w);
    ++acquires_;
    m.releases = false;
    m.id = a->id;
    m.ticket = a->ticket;
    m.not_after_us = a->not_after_us;
    m.proposal = a->proposal;
    return true;
  }
  if (auto const* const r = std::get_if<release_command>(&c)) {
    if (r->with_source || r->permit != nullptr || r->patient || r->keep || r->ends_in.count() != 0) return false;
    terms const t{r->lease, r->claim, r->retention, r->floor != 0, slot};
    if (!fits(t, r->name, waiting::unknown)) return false;
    member& m = next(t, r->name, waiting::unknown);
    m.releases = true;
    m.id = r->id;
    m.new_id = r->new_id;
    m.floor = r->floor;
    m.next_fence_floor = r->next_fence_floor;
    return true;
  }
  return false;
}

std::array<std::uint8_t, gathering::most> gathering::places() const noexcept {
  std::array<std::uint8_t, most> places{};
  std::size_t acquire = 0, release = acquires_;
  for (std::size_t i = 0; i < size_; ++i)
    places[i] = static_cast<std::uint8_t>(members_[i].releases ? release++ : acquire++);
  return places;
}

}  // namespace conch::protocol
