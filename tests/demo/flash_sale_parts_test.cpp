// What the buyers of a process tell each other.

#include <gtest/gtest.h>

#include <vector>

#include "sale.hpp"

namespace {

using segments = std::vector<std::uint32_t>;

flash_sale::settings three_segments() {
  flash_sale::settings s;
  s.items = 10;
  s.segments = 3;
  return s;
}

TEST(FlashSaleShelf, NamesTheSegmentsThatWereSeenWithTooLittle) {
  flash_sale::shelf known{three_segments()};
  EXPECT_EQ(known.too_small_for(3), segments{});
  known.saw(2, 2);
  known.saw(3, 0);
  EXPECT_EQ(known.too_small_for(1), segments{3});
  EXPECT_EQ(known.too_small_for(3), (segments{2, 3}));
}

TEST(FlashSaleShelf, IsEmptyWhenEachSegmentWasSeenEmpty) {
  flash_sale::shelf known{three_segments()};
  known.saw(1, 0);
  known.saw(1, 0);
  known.saw(2, 0);
  EXPECT_FALSE(known.empty());
  known.saw(3, 1);
  EXPECT_FALSE(known.empty());
  known.saw(3, 0);
  EXPECT_TRUE(known.empty());
}

TEST(FlashSaleShelf, DoesNotBelieveAnOlderLookThatSawMore) {
  flash_sale::shelf known{three_segments()};
  known.saw(1, 1);
  known.saw(1, 4);
  EXPECT_EQ(known.most(1), 1);
}

TEST(FlashSale, AddsUpIfTheBuyersHaveWhatIsGoneFromTheStock) {
  flash_sale::settings s;
  s.items = 10;
  EXPECT_TRUE(flash_sale::adds_up(s, {4, false}, 6, 0));
  EXPECT_FALSE(flash_sale::adds_up(s, {4, false}, 7, 0)) << "sold twice";
  EXPECT_FALSE(flash_sale::adds_up(s, {4, false}, 5, 0)) << "lost";
  EXPECT_TRUE(flash_sale::adds_up(s, {4, false}, 5, 1)) << "its write was not answered";
  EXPECT_TRUE(flash_sale::adds_up(s, {4, false}, 6, 1)) << "likewise, and it was not made";
  EXPECT_FALSE(flash_sale::adds_up(s, {4, false}, 4, 1));
  EXPECT_FALSE(flash_sale::adds_up(s, {-1, true}, 11, 0));
}

}  // namespace
