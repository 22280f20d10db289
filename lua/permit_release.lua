-- Gives a part of the lock back, or leaves the queue; in either case what is free goes to the waiters.
-- KEYS lock queue fence ends
-- ARGV id keep(1: stay if granted meanwhile; with ! patient) lease claim retention kind limit weight visited rest(0: gives all back, else
--      how much of it stays mine), and at a node of a Cluster: shard (lib/channel.lua)
-- Answers {was_owner passed_on more_wait now}, for a patient one perhaps {3 0 1 now} as in release.lua, for a keep that found itself owner {2 fence segment(weight 0: how much) now};
-- 2 more in passed_on, and a fifth number 2 for that owner: there was more to do than one script does; the client must repeat a release at once
local lock_key, queue_key, fence_key, ends_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local keep, patient = string.sub(ARGV[2], 1, 1) == '1', string.sub(ARGV[2], -1) == '!'
local id, lease, claim, retention = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local kind, asked_limit, weight, visited, rest = ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[9], tonumber(ARGV[10])
local limit, shard = asked_limit, ARGV[11]
local freed = false
-- @include lib/time.lua
-- @include lib/known.lua

-- Mostly it is given back by its owner, no lease has expired, and the queue is empty: answered before anything is made that only the other
-- cases need.
first_heads = known[2] and rest == 0 and not keep and redis.call('ZRANGE', queue_key, 0, 1, 'WITHSCORES')
if first_heads and not first_heads[1] then
  local before, taken, first_end, map = string.match(known[1], '^(' .. kind .. ' %d+ )(%d+) ([1-9]%d*) 0 (.*)$')
  local its_weight, ends, segment = string.match(known[2], '^(%d+) %d+ [hc] (%d+) (%d+)$')
  if before and its_weight and tonumber(first_end) > now and tonumber(ends) > now then
    taken, segment = taken - its_weight, tonumber(segment)
    if taken == 0 then
      local deleted = redis.pcall('DEL', lock_key, lock_key .. ':a')
      freed = deleted == 2
      if not freed and deleted ~= 1 then
        redis.call('DEL', lock_key) -- a server that demands each key beforehand (lib/freed.lua)
      end
    else
      if segment > 0 then
        map = string.sub(map, 1, segment - 1) .. '0' .. string.sub(map, segment + 1)
      end
      redis.call('HDEL', lock_key, id, 'walked')
      redis.call('HSET', lock_key, 'sums', before .. taken .. ' ' .. first_end .. ' 0 ' .. map)
    end
    if not freed then
      return {1, 0, 0, now}
    end
  end
end
local watchers_key, alert_key = lock_key .. ':w', lock_key .. ':a'
-- @include lib/line.lua
-- @include lib/freed.lua

if freed then
  tell_freed()
  return {1, 0, 0, now}
end
-- To give back must not fail for want of memory, nor must what comes before it: as in next_fence of lib/fence.lua.
redis.pcall('ZREM', queue_key, '')
-- @include lib/permits.lua

exact = patient or not mine

if mine and keep then
  extend_part(lease)
  admit(nil, 0, 0)
  return {2, mine.fence, told_of(mine), now, unfinished and 2 or nil}
end

local floor, was_first = 0, false
if mine and rest == 0 and one_is_awaited(limit - used + mine.weight) then
  return {3, 0, 1, now}
end
if not mine then
  was_first = used > 0 and redis.call('ZRANGE', queue_key, 0, 0)[1] == entry
  redis.call('ZREM', queue_key, entry)
  first_heads = nil
elseif rest > 0 then
  used = used - math.max(mine.weight - rest, 0)
  mine.weight = math.min(mine.weight, rest)
  floor = mine.fence
  write(id, mine)
else
  floor = mine.fence
  take_back(id, mine)
end

local _, _, others, more_wait = admit(nil, 0, floor)
if used == 0 and not (unfinished and more_wait) and redis.pcall('DEL', alert_key) == 1 then
  tell_freed()
end
-- As in lib/release.lua: the next one is first now, or nobody will check that a new owner has taken its part.
local left = math.max(0, math.ceil((first_end - now) / 1000))
if not mine and used > 0 and more_wait and (was_first or left <= claim) then
  tell_end(queue_key, left, was_first and 1 or 3)
end
return {mine and 1 or 0, (others > 0 and 1 or 0) + (unfinished and more_wait and 2 or 0), more_wait and 1 or 0, now}
