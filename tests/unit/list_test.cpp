#include "base/list.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace conch::engine {
namespace {

struct item : list_hook<item> {
  explicit item(int n) : number{n} {}
  int number;
};

std::vector<int> content(list<item>& l) {
  std::vector<int> numbers;
  l.for_each([&](item& i) { numbers.push_back(i.number); });
  return numbers;
}

using numbers = std::vector<int>;

TEST(List, IsFirstInFirstOut) {
  item a{1}, b{2}, c{3};
  list<item> l;
  EXPECT_TRUE(l.empty());
  for (item* i : {&a, &b, &c}) l.push_back(*i);
  EXPECT_EQ(content(l), (numbers{1, 2, 3}));
  EXPECT_EQ(&l.front(), &a);
  EXPECT_EQ(&l.pop_front(), &a);
  EXPECT_EQ(&l.pop_front(), &b);
  EXPECT_EQ(&l.pop_front(), &c);
  EXPECT_TRUE(l.empty());
}

TEST(List, KnowsWhetherItHasExactlyOne) {
  item a{1}, b{2};
  list<item> l;
  EXPECT_FALSE(l.has_one());
  l.push_back(a);
  EXPECT_TRUE(l.has_one());
  l.push_back(b);
  EXPECT_FALSE(l.has_one());
  a.unlink();
  EXPECT_TRUE(l.has_one());
}

TEST(List, LosesAnItemFromAnyPlace) {
  for (int place = 1; place <= 3; ++place) {
    item a{1}, b{2}, c{3};
    list<item> l;
    for (item* i : {&a, &b, &c}) l.push_back(*i);
    item* const all[] = {&a, &b, &c};
    all[place - 1]->unlink();
    EXPECT_FALSE(all[place - 1]->linked());
    numbers expected{1, 2, 3};
    expected.erase(expected.begin() + place - 1);
    EXPECT_EQ(content(l), expected);
    all[place - 1]->unlink();  // once more changes nothing
    EXPECT_EQ(content(l), expected);
  }
}

TEST(List, LosesAnItemThatIsDestroyed) {
  item a{1}, c{3};
  list<item> l;
  l.push_back(a);
  {
    item b{2};
    l.push_back(b);
    l.push_back(c);
  }
  EXPECT_EQ(content(l), (numbers{1, 3}));
}

TEST(List, TakesAnItemAgain) {
  item a{1}, b{2};
  list<item> l;
  l.push_back(a);
  l.push_back(b);
  l.push_back(l.pop_front());
  EXPECT_EQ(content(l), (numbers{2, 1}));
}

TEST(List, LetsItsItemsGoWhenItIsDestroyed) {
  item a{1}, b{2};
  {
    list<item> l;
    l.push_back(a);
    l.push_back(b);
    EXPECT_TRUE(a.linked());
  }
  EXPECT_FALSE(a.linked());
  EXPECT_FALSE(b.linked());
}

TEST(List, TakesOverAnotherInOrder) {
  item a{1}, b{2}, c{3}, d{4};
  list<item> l, other;
  l.push_back(a);
  other.push_back(b);
  other.push_back(c);
  l.splice_back(other);
  EXPECT_TRUE(other.empty());
  EXPECT_EQ(content(l), (numbers{1, 2, 3}));
  l.splice_back(other);
  EXPECT_EQ(content(l), (numbers{1, 2, 3}));
  other.push_back(d);
  EXPECT_EQ(content(other), numbers{4});
}

TEST(List, MayLoseTheItemThatIsBeingVisited) {
  item a{1}, b{2}, c{3};
  list<item> l, odd;
  for (item* i : {&a, &b, &c}) l.push_back(*i);
  l.for_each([&](item& i) {
    if (i.number % 2 == 0) return;
    i.unlink();
    odd.push_back(i);
  });
  EXPECT_EQ(content(l), numbers{2});
  EXPECT_EQ(content(odd), (numbers{1, 3}));
}

TEST(List, MayDestroyTheItemThatIsBeingVisited) {
  list<item> l;
  for (int n = 0; n < 4; ++n) l.push_back(*new item{n});
  l.for_each([](item& i) { delete &i; });
  EXPECT_TRUE(l.empty());
}

}  // namespace
}  // namespace conch::engine
