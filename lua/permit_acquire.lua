-- Takes a part of a lock that has several owners, or joins its queue.
-- KEYS lock queue fence ends
-- ARGV id mode(wait|try, with ! patient) lease claim retention ticket(0: none) not_after(0: none) kind(s|r|g|e) limit weight visited start, and at a node of a Cluster: shard (lib/channel.lua)
-- The limit is that of the first client; it stays as long as any client owns a part. Weight 0, only in a try without segments: all that is free.
-- Answers {1 fence now segment(weight 0: how much)} granted · {0 left now ticket} queued · {2 left now} busy · {3 0 now} too late to be done
-- · {4 0 now ticket(0: a try)} not known yet, there was more to do than one script does: to be asked again at once
-- If queued, busy or not known, a fifth number if this script passed something on: 1 if there are waiters behind its new owners
-- If granted, a fifth number 2 if there was more to do: the client must send a release at once
local lock_key, queue_key, fence_key, ends_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local wait, patient = string.sub(ARGV[2], 1, 4) == 'wait', string.sub(ARGV[2], -1) == '!'
local id, lease, claim, retention = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local ticket, not_after = tonumber(ARGV[6]), tonumber(ARGV[7])
local kind, asked_limit, weight, visited, start = ARGV[8], tonumber(ARGV[9]), ARGV[10], ARGV[11], tonumber(ARGV[12])
local limit, shard = asked_limit, ARGV[13]
-- @include lib/fence.lua
-- @include lib/known.lua

-- Mostly there is room, no lease has expired, and the queue is empty: answered before anything is made that only the other cases need.
local queue_is_empty = redis.call('EXISTS', queue_key) == 0
if queue_is_empty and not known.err and not known[2] and not_after == 0 and (known[1] or redis.call('EXISTS', lock_key) == 0) then
  local its_limit, taken, first_end, map = limit, 0, nil, kind == 'KIND_SEGMENTS' and string.rep('0', limit) or ''
  if known[1] then
    its_limit, taken, first_end, map = string.match(known[1], '^' .. kind .. ' (%d+) (%d+) ([1-9]%d*) 0 (.*)$')
    its_limit, taken, first_end = tonumber(its_limit), tonumber(taken), tonumber(first_end)
  end
  local size = its_limit and (weight == '0' and its_limit - taken or math.min(weight, its_limit))
  local fits = its_limit and size > 0 and (not first_end or first_end > now) and taken < few_owners and taken + size <= its_limit
  local segment = 0
  if kind == 'KIND_SEGMENTS' and fits then
    local from = start % its_limit
    segment = visited == '-' and (string.find(map, '0', from + 1, true) or string.find(map, '0', 1, true))
    fits = segment
    map = fits and string.sub(map, 1, segment - 1) .. '1' .. string.sub(map, segment + 1)
  elseif kind == 'KIND_REENTRANT' then
    fits = fits and (taken == 0 or map == visited)
    map = visited
  end
  if fits then
    local fence = next_fence(0)
    local ends = now + lease * 1000
    redis.call('HSET', lock_key, 'sums', kind .. ' ' .. its_limit .. ' ' .. taken + size .. ' ' .. text(math.min(first_end or ends, ends)) .. ' 0 ' .. map,
               id, size .. ' ' .. text(fence) .. ' h ' .. text(ends) .. ' ' .. segment)
    if redis.call('PTTL', lock_key) < lease then
      redis.call('PEXPIRE', lock_key, lease)
    end
    return {1, fence, now, weight == '0' and size or segment}
  end
end
-- @include lib/line.lua

if not_after > 0 and now > not_after then
  return {3, 0, now}
end
if known[2] then
  redis.pcall('ZREM', queue_key, '') -- an owner asks again, which needs no memory: as in next_fence of lib/fence.lua
end
-- @include lib/permits.lua

exact = true

if mine then
  extend_part(lease)
  admit(nil, 0, 0)
  return {1, mine.fence, now, told_of(mine), unfinished and 2 or nil}
end

-- How long a waiter may sleep: until the first lease ends. Looked up when the rough answer would wake it within half a claim:
-- at each question would be too often, since most owners have a claim that is never confirmed, and give back long before it ends.
local function left()
  if used > 0 and first_end - now < claim * 500 then
    sweep(now + claim * 500)
  end
  return used == 0 and claim or math.ceil((first_end - now) / 1000)
end

local again = ticket > 0

-- At its old place it may be among those that were looked at while it was not there (see admit); so may a new one, when the clock has
-- gone back.
local function stand_in_line()
  local place = again and ticket <= walked and tonumber(redis.call('ZSCORE', queue_key, entry) or nil)
  local is_new
  ticket, is_new = enqueue(entry, ticket, math.max(redis.call('PTTL', lock_key), claim), lease)
  if ticket <= walked and (is_new or (place and place > ticket)) then
    redis.call('HDEL', lock_key, 'walked')
    walked = 0
  end
  return ticket
end

local passed_on
if not queue_is_empty then
  if wait then
    stand_in_line()
  end
  -- A dead client at the head of the queue may be too large to get its turn soon, and must not keep the others from
  -- theirs. A waiter that asks again, because a lease should have expired, finds out; nothing else is sent for it.
  while again and not patient do
    local head = redis.call('ZRANGE', queue_key, 0, 0)[1]
    unfinished = unfinished or steps <= 0
    if not head or head == entry or steps <= 0 or reach(string.match(head, '^%S+'), '') then
      break
    end
    redis.call('ZREM', queue_key, head)
    steps = steps - 1
  end
  if patient and used >= limit then
    awaited(id, 0)  -- nobody yet, but they are told to come: the owner may never give it back
  end
  local fence, segment, others, more, absent = admit(id, lease, 0)
  if fence then
    tell_end(queue_key, lease, 3) -- as in extend_part
    return {1, fence, now, segment, unfinished and more and 2 or nil}
  end
  passed_on = others > 0 and (more and 1 or 0) or nil
  if unfinished and (wait or more) then
    return {4, 0, now, wait and ticket or 0, passed_on}
  end
  local soon = absent and 20
  if wait then
    return {0, soon or left(), now, ticket, passed_on}
  end
  if soon then
    return {2, soon, now}
  end
  queue_is_empty = not more
end

-- With segments, the waiters want none of those that are free now; waiters for a reentrant lock are not its owner.
local segment = (queue_is_empty or kind == 'KIND_SEGMENTS' or kind == 'KIND_REENTRANT') and fit(weight, visited, start)
if segment then
  local fence = next_fence(0)
  local size = weight == 0 and limit - used or math.min(weight, limit)
  own_part(id, size, fence, 'h', lease, segment, visited)
  return {1, fence, now, told_of({weight = size, segment = segment})}
end
if unfinished then
  return {4, 0, now, wait and stand_in_line() or 0, passed_on}
end
local sleep = left()
if not wait then
  return {2, sleep, now, 0, passed_on}
end
return {0, sleep, now, stand_in_line()}
