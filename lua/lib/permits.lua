-- What the scripts of a lock with several owners share, on top of lib/lock.lua. The caller also defines id, kind, limit,
-- weight and visited (what it asks for, or asked for).
--
--   lock_key   hash  k kind · n limit · u how much of it is taken · x no lease ends before this (server time, µs)
--                    l there if the limit was set (permit_limit.lua): then it outlives the owners by the retention
--                    m segments, one character each, 1 is taken (kind g); who owns it, whatever the process (kind e)
--                    ID  "WEIGHT FENCE STATE ENDS SEGMENT" for each owner, STATE as in lib/lock.lua, SEGMENT 0 if there are none
--   queue_key  zset  "ID WEIGHT VISITED" by ticket, VISITED is - or ,SEGMENT,SEGMENT, that it does not want (kind e: for whom)
local entry = id .. ' ' .. weight .. ' ' .. visited
weight = tonumber(weight)
local known = redis.pcall('HMGET', lock_key, 'k', 'n', 'u', 'x', 'm', id, 'l')
if known.err or (known[1] or kind) ~= kind or (not known[1] and redis.call('EXISTS', lock_key) == 1) then
  return not_a_lock()
end
local used, first_end, map = tonumber(known[3]) or 0, tonumber(known[4]) or 0, kind == 'g' and known[5] or nil
local whose = kind == 'e' and known[5] or nil
limit = tonumber(known[2]) or limit
local was_set = known[7]

local function parse_owner(value)
  local taken, fence, state, ends, segment = string.match(value or '', '^(%d+) (%d+) ([hc]) (%d+) (%d+)$')
  if not taken then
    return nil
  end
  return {weight = tonumber(taken), fence = tonumber(fence), state = state, ends = tonumber(ends), segment = tonumber(segment)}
end

local function mark(segment, taken)
  if map and segment > 0 then
    map = string.sub(map, 1, segment - 1) .. taken .. string.sub(map, segment + 1)
  end
end

local function start_anew()
  limit = was_set and limit or asked_limit
  used, first_end, map, whose = 0, 0, kind == 'g' and string.rep('0', limit) or nil, nil
end

-- Written together with every change of an owner: at no call between two others do the sums disagree with the owners.
local function write(owner_id, owner)
  if used == 0 and not was_set then
    redis.call('DEL', lock_key)
    return
  end
  local fields = {'k', kind, 'n', text(limit), 'u', text(used), 'x', text(first_end)}
  if map or whose then
    fields[9], fields[10] = 'm', map or whose
  elseif was_set then
    fields[9], fields[10] = 'l', was_set
  end
  if owner then
    fields[#fields + 1] = owner_id
    fields[#fields + 1] = text(owner.weight) .. ' ' .. text(owner.fence) .. ' ' .. owner.state .. ' ' .. text(owner.ends) ..
                          ' ' .. text(owner.segment)
  end
  redis.call('HSET', lock_key, unpack(fields))
  if was_set and redis.call('PTTL', lock_key) < retention then
    redis.call('PEXPIRE', lock_key, retention)
  end
end

-- Ends the leases that are over, and finds out anew when the first of the others ends. x may be earlier than that: a
-- renewal does not look at everybody.
local function sweep()
  local all = redis.call('HGETALL', lock_key)
  used, first_end = 0, 0
  for i = 1, #all, 2 do
    local owner = parse_owner(all[i + 1])
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

local mine = parse_owner(known[6])
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
  whose = kind == 'e' and for_whom or nil
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

-- How long a waiter may sleep: until the first lease ends. Looked up exactly when the rough answer would wake it early.
local function left(lease)
  if used > 0 and first_end - now < lease * 500 then
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
    return (used == 0 or whose == unwanted) and 0 or nil
  end
  if not map then
    return used + math.min(size, limit) <= limit and 0 or nil
  end
  for i = 0, limit - 1 do
    local segment = (start + i) % limit + 1
    if string.byte(map, segment) == 48 and not string.find(unwanted, ',' .. segment .. ',', 1, true) then
      return segment
    end
  end
  return nil
end

-- Gives what is free to the first in line for whom it is enough, as long as it is: the large request at the head is not
-- overtaken, but with segments whoever wants none of the free ones is passed over, and with owners (kind e) all that wait
-- for the one who has it come in together: one of them may wait for another. As in pass_on only those are written
-- down as owners whose client hears of it. Every script ends with this, whoever it was for: what a lease that is over, or a
-- script that failed half-way, has left free must not stay so while somebody waits. Answers the fence and the segment of `me`, and how many others have got theirs.
local function admit(me, my_lease, fence)
  local my_fence, my_segment, others, place = nil, nil, 0, 0
  while used < limit do
    local head = redis.call('ZRANGE', queue_key, place, place)[1]
    if not head then
      break
    end
    local head_id, size, unwanted = string.match(head, '^(%S+) (%d+) (%S+)$')
    local segment = head_id and fit(tonumber(size), unwanted, 0)
    if not head_id then
      redis.call('ZREM', queue_key, head)
    elseif not segment then
      if not map and kind ~= 'e' then
        break
      end
      place = place + 1
    else
      fence = next_fence(fence)
      redis.call('ZREM', queue_key, head)
      size = math.min(tonumber(size), limit)
      if head_id == me then
        own_part(me, size, fence, 'h', my_lease, segment, unwanted)
        my_fence, my_segment = fence, segment
      else
        local grant = head_id .. ' ' .. text(fence) .. ' ' .. text(now) .. ' ' .. claim .. ' ' .. kind .. segment .. ' ' .. lock_key
        if redis.call('PUBLISH', 'conch:' .. string.match(head_id, '^[^.]*'), grant) > 0 then
          own_part(head_id, size, fence, 'c', tonumber(claim), segment, unwanted)
          others = others + 1
        end
      end
    end
  end
  return my_fence, my_segment, others
end
