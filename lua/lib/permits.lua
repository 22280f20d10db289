-- What the scripts of a lock with several owners share, on top of lib/lock.lua and lib/part.lua. The caller also defines id,
-- kind, limit, weight and visited (what it asks for, or asked for), and patient.
--
--   lock_key   hash  sums "KIND LIMIT TAKEN FIRST_END SET MAP": no lease ends before FIRST_END (server time, µs); SET is 1 if the limit
--                    was set (permit_limit.lua): then the hash outlives the owners by the retention; MAP has a character for
--                    each segment, 1 is taken (kind g), or says who owns it, whatever the process (kind e)
--                    ID   what each owner has (lib/part.lua)
--   queue_key  zset  "ID WEIGHT VISITED" by ticket, VISITED is - or ,SEGMENT,SEGMENT, that it does not want (kind e: for whom)
--
-- @include lib/part.lua
local entry = id .. ' ' .. weight .. ' ' .. visited
weight = tonumber(weight)
local known = redis.pcall('HMGET', lock_key, 'sums', id)
if known.err and not string.find(known.err, 'WRONGTYPE', 1, true) then
  return known
end
if known.err or (not known[1] and redis.call('EXISTS', lock_key) == 1) then
  return not_a_lock()
end
local its_kind, its_limit, used, first_end, was_set, map = parse_sums(known[1])
if known[1] and its_kind ~= kind then
  return not_a_lock()
end
limit, used = its_limit or limit, used or 0

local function mark(segment, taken)
  if segment > 0 then
    map = string.sub(map, 1, segment - 1) .. taken .. string.sub(map, segment + 1)
  end
end

local function start_anew()
  limit = was_set and limit or asked_limit
  used, first_end, map = 0, 0, kind == 'g' and string.rep('0', limit) or ''
end

-- Written together with every change of an owner: at no call between two others do the sums disagree with the owners.
local function write(owner_id, owner)
  if used == 0 and not was_set then
    redis.call('DEL', lock_key)
    return
  end
  local sums = string.format('%s %d %d %.0f %d %s', kind, limit, used, first_end, was_set and 1 or 0, map)
  if owner then
    redis.call('HSET', lock_key, 'sums', sums, owner_id, part_text(owner))
  else
    redis.call('HSET', lock_key, 'sums', sums)
  end
  if was_set and redis.call('PTTL', lock_key) < retention then
    redis.call('PEXPIRE', lock_key, retention)
  end
end

-- Ends the leases that are over, and finds out anew when the first of the others ends. FIRST_END may be earlier than that: a
-- renewal does not look at everybody.
local function sweep()
  local all = redis.call('HGETALL', lock_key)
  used, first_end = 0, 0
  for i = 1, #all, 2 do
    local owner = parse_part(all[i + 1])
    if owner then
      if owner.ends <= now then
        redis.call('HDEL', lock_key, all[i])
        mark(owner.segment, '0')
      else
        used = used + owner.weight
        first_end = first_end == 0 and owner.ends or math.min(first_end, owner.ends)
      end
    end
  end
  write()
end

if used > 0 and first_end <= now then
  sweep()
end
if used == 0 then
  start_anew()
end

local mine = parse_part(known[2])
if mine and mine.ends <= now then
  mine = nil
end

local function live(lease)
  if redis.call('PTTL', lock_key) < lease then
    redis.call('PEXPIRE', lock_key, lease)
  end
end

local function own_part(owner_id, size, fence, state, lease, segment, for_whom)
  local ends = now + lease * 1000
  first_end = used == 0 and ends or math.min(first_end, ends)
  used = used + size
  map = kind == 'e' and for_whom or map
  mark(segment, '1')
  write(owner_id, {weight = size, fence = fence, state = state, ends = ends, segment = segment})
  live(lease)
end

-- Makes my lease at least `lease` from now, and a claim a hold.
local function extend_part(lease)
  mine.state, mine.ends = 'h', math.max(mine.ends, now + lease * 1000)
  write(id, mine)
  live(lease)
end

-- How long a waiter may sleep: until the first lease ends. Looked up when the rough answer would wake it within half a claim:
-- at each question would be too often, since most owners have a claim that is never confirmed, and give back long before it ends.
local function left()
  if used > 0 and first_end - now < claim * 500 then
    sweep()
  end
  return used == 0 and claim or math.ceil((first_end - now) / 1000)
end

-- What is free for it: a segment, 0 where there are none, or nil. More than the limit counts as all of it: the limit may
-- have been lowered since.
local function fit(size, unwanted, start)
  if used >= limit then
    return nil
  end
  if kind == 'e' then
    return (used == 0 or map == unwanted) and 0 or nil
  end
  if kind ~= 'g' then
    return used + math.min(size, limit) <= limit and 0 or nil
  end
  local segment = start % limit
  for _ = 1, 2 do  -- to the end, then from the first
    segment = string.find(map, '0', segment + 1, true)
    while segment do
      if not string.find(unwanted, ',' .. segment .. ',', 1, true) then
        return segment
      end
      segment = string.find(map, '0', segment + 1, true)
    end
    segment = 0
  end
  return nil
end

-- Of those that are first in line, and for whom there may be room.
local function one_is_awaited(room)
  return patient and room > 0 and awaited(id, room)
end

-- Gives what is free to the first in line for whom it is enough, as long as it is: the large request at the head is not
-- overtaken, but with segments whoever wants none of the free ones is passed over, and with owners (kind e) all that wait
-- for the one who has it come in together: one of them may wait for another. As in pass_on only those are written
-- down as owners whose client hears of it. Every script ends with this, whoever it was for: what a lease that is over, or a
-- script that failed half-way, has left free must not stay so while somebody waits. Answers the fence and the segment of `me`,
-- how many others have got theirs, whether anybody waits still, and whether one is awaited who is not there yet.
local function admit(me, my_lease, fence)
  if one_is_awaited(limit - used) then
    return nil, nil, 0, true, true
  end
  local my_fence, my_segment, others, place, more = nil, nil, 0, 0, nil
  while used < limit do
    local heads = redis.call('ZRANGE', queue_key, place, place + 1)
    local head = heads[1]
    if not head then
      more = place > 0
      break
    end
    local head_id, size, unwanted = string.match(head, '^(%S+) (%d+) (%S+)$')
    local segment = head_id and fit(tonumber(size), unwanted, 0)
    if not head_id then
      redis.call('ZREM', queue_key, head)
    elseif not segment then
      more = true
      if kind ~= 'g' and kind ~= 'e' then
        break
      end
      place = place + 1
    else
      local digits
      fence, digits = next_fence(fence)
      redis.call('ZREM', queue_key, head)
      more = place > 0 or heads[2] ~= nil
      size = math.min(tonumber(size), limit)
      if head_id == me then
        own_part(me, size, fence, 'h', my_lease, segment, unwanted)
        my_fence, my_segment = fence, segment
      else
        local grant = head_id .. ' ' .. digits .. ' ' .. text(now) .. ' ' .. claim .. ' ' .. kind .. segment .. ' ' .. lock_key
        if reach(head_id, grant) then
          own_part(head_id, size, fence, 'c', tonumber(claim), segment, unwanted)
          others = others + 1
        end
      end
    end
  end
  if more == nil then
    more = redis.call('EXISTS', queue_key) == 1
  end
  return my_fence, my_segment, others, more
end
