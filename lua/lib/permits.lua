-- What the scripts of a lock with several owners share, on top of lib/line.lua and lib/part.lua. The caller also includes lib/known.lua, and
-- defines ends_key, id, kind, limit, weight and visited (what it asks for, or asked for), and patient.
--
--   lock_key   hash  sums "KIND LIMIT TAKEN FIRST_END SET MAP": no lease ends before FIRST_END (server time, µs); SET is 1 if the limit
--                    was set (permit_limit.lua): then the hash outlives the owners by the retention; MAP has a character for
--                    each segment, 1 is taken (kind g), or names its owner, whatever the process (kind e)
--                    ID      what each owner has (lib/part.lua)
--                    walked  kinds g and e: no waiter up to that ticket wants what is free (see admit)
--   ends_key   zset  of many owners: their ids, by a time before which the lease does not end. A renewal does not change it.
--   queue_key  zset  "ID WEIGHT VISITED" by ticket, VISITED is - or ,SEGMENT,SEGMENT, that it does not want (kind e: for whom)
--
-- @include lib/part.lua
-- @include lib/reach.lua
local steps = most_steps
local unfinished = false -- there was more to do than the steps allow
local entry = id .. ' ' .. weight .. ' ' .. visited
weight = tonumber(weight)
if known.err and not string.find(known.err, 'WRONGTYPE', 1, true) then
  return known
end
if known.err or (not known[1] and redis.call('EXISTS', lock_key) == 1) then
  return not_a_lock()
end
local its_kind, its_limit, used, first_end, was_set, map, indexed = parse_sums(known[1])
if known[1] and its_kind ~= kind then
  return not_a_lock()
end
limit, used = its_limit or limit, used or 0
local walked = tonumber(known[3] or 0)

local function mark(segment, taken)
  if segment > 0 then
    if taken == '0' and walked > 0 then
      redis.call('HDEL', lock_key, 'walked') -- before it is free: the waiters must be looked at again, from the first
      walked = 0
    end
    map = string.sub(map, 1, segment - 1) .. taken .. string.sub(map, segment + 1)
  end
end

-- Written together with every change of an owner: at no call between two others do the sums disagree with the owners.
local function write(owner_id, owner)
  if used == 0 and not was_set then
    redis.call('DEL', lock_key)
    if indexed then
      redis.call('DEL', ends_key)
    end
    indexed, walked = false, 0
    return
  end
  local sums = string.format('%s %d %d %s%.0f %d %s', kind, limit, used, indexed and '0' or '', first_end, was_set and 1 or 0, map)
  if owner then
    redis.call('HSET', lock_key, 'sums', sums, owner_id, part_text(owner))
  else
    redis.call('HSET', lock_key, 'sums', sums)
  end
  if was_set and redis.call('PTTL', lock_key) < retention then
    redis.call('PEXPIRE', lock_key, retention)
  end
end

-- Where all owners are looked at again, when the first lease ends, it does no harm if a script ends between these calls; where they are
-- not, what it had is written down as nothing first.
local function take_back(owner_id, owner)
  used = used - owner.weight
  mark(owner.segment, '0')
  if indexed and used > 0 then
    owner.weight, owner.segment = 0, 0
    write(owner_id, owner)
    redis.call('HDEL', lock_key, owner_id)
    redis.call('ZREM', ends_key, owner_id)
  else
    redis.call('HDEL', lock_key, owner_id)
    write()
  end
end

-- Ends the expired leases, and finds out anew when the first of the others ends. FIRST_END may be earlier than that: a
-- renewal does not look at all owners. With a set of ends those before `before` are looked at, as many as the steps allow. Otherwise all are: there
-- are few, or it is to be made.
local function sweep(before)
  local first
  if indexed then
    local ids = redis.call('ZRANGE', ends_key, '-inf', text(before), 'BYSCORE', 'LIMIT', 0, math.max(steps, 1))
    steps = steps - #ids
    for _, owner_id in ipairs(ids) do
      local owner = parse_part(redis.call('HGET', lock_key, owner_id))
      if not owner then
        redis.call('ZREM', ends_key, owner_id)
      elseif owner.ends <= now then
        take_back(owner_id, owner)
      else
        redis.call('ZADD', ends_key, text(owner.ends), owner_id)
      end
    end
    if used == 0 then
      return
    end
    first = redis.call('ZRANGE', ends_key, 0, 0, 'WITHSCORES')[2] -- none: it has been removed
  end
  if first then
    first_end = tonumber(first)
    unfinished = first_end <= now
  else
    local all, ends = redis.call('HGETALL', lock_key), {}
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
          ends[#ends + 1] = text(owner.ends)
          ends[#ends + 1] = all[i]
        end
      end
    end
    local was_indexed = indexed
    indexed = #ends > 2 * few_owners
    if indexed or was_indexed then
      redis.call('DEL', ends_key)
    end
    for i = 1, indexed and #ends or 0, 200 do
      redis.call('ZADD', ends_key, unpack(ends, i, math.min(i + 199, #ends)))
    end
    if indexed then
      redis.call('PEXPIRE', ends_key, math.max(redis.call('PTTL', lock_key), 0) + retention)
    end
  end
  write()
end

local mine = parse_part(known[2])
if mine and mine.ends <= now then
  if indexed then
    take_back(id, mine)
  end
  mine = nil
end
if used > 0 and first_end <= now then
  sweep(now)
end
if used == 0 then
  limit = was_set and limit or asked_limit
  used, first_end, map, indexed, walked = 0, 0, kind == 'KIND_SEGMENTS' and string.rep('0', limit) or '', false, 0
end

local function live(lease)
  if redis.call('PTTL', lock_key) < lease then
    redis.call('PEXPIRE', lock_key, lease)
  end
end

-- Makes my lease at least `lease` from now, and a claim a hold.
local function extend_part(lease)
  local was_claim = mine.state == 'c'
  mine.state, mine.ends = 'h', math.max(mine.ends, now + lease * 1000)
  write(id, mine)
  live(lease)
  if was_claim then
    tell_end(queue_key, lease, 3) -- the waiters know the leases of earlier owners
  end
end

local function own_part(owner_id, size, fence, state, lease, segment, for_whom)
  local ends = now + lease * 1000
  first_end = used == 0 and ends or math.min(first_end, ends)
  used = used + size
  map = kind == 'KIND_REENTRANT' and for_whom or map
  mark(segment, '1')
  if indexed then
    redis.call('ZADD', ends_key, text(ends), owner_id)
    redis.call('PEXPIRE', ends_key, lease + retention) -- longer than the hash: renewals extend that alone
  end
  write(owner_id, {weight = size, fence = fence, state = state, ends = ends, segment = segment})
  live(lease)
  if not indexed and used - size >= few_owners then
    local count = redis.call('HLEN', lock_key)
    if count > few_owners + 2 and count <= 2 * few_owners then
      sweep(now)
    end
  end
end

-- What an owner is told about its part: the segment. If it asked for all that is free (a weight of 0): how much that was.
local function told_of(owner)
  return weight == 0 and owner.weight or owner.segment
end

-- What is free for it: a segment, 0 where there are none, or nil. More than the limit counts as all of it: the limit may
-- have been lowered since.
local hopeless -- of kind g: waiters for which this script has found none; it never has more to give than before
local function fit(size, unwanted, start)
  if used >= limit then
    return nil
  end
  if kind == 'KIND_REENTRANT' then
    return (used == 0 or map == unwanted) and 0 or nil
  end
  if kind ~= 'KIND_SEGMENTS' then
    return used + math.min(size, limit) <= limit and 0 or nil
  end
  if hopeless and hopeless[unwanted] then
    return nil
  end
  steps = steps - math.floor(#unwanted / 32)
  local refused = {}
  for segment in string.gmatch(unwanted, '%d+') do
    refused[tonumber(segment)] = true
  end
  local segment = start % limit
  for _ = 1, 2 do  -- to the end, then from the first
    segment = string.find(map, '0', segment + 1, true)
    while segment do
      if not refused[segment] then
        return segment
      end
      segment = string.find(map, '0', segment + 1, true)
    end
    segment = 0
  end
  hopeless = hopeless or {}
  hopeless[unwanted] = true
  return nil
end

-- Whether one of the first in the queue, for whom there may be room, is awaited.
local function one_is_awaited(room)
  return patient and room > 0 and awaited(id, room)
end

-- Gives what is free to the first in the queue for which it is enough, as long as it is: the large request at the head is not
-- overtaken, but with segments a waiter that wants none of the free ones is passed over, and with owners (kind e) all waiters
-- of the client that has the lock come in together: one of them may wait for another. As in pass_on only those are written
-- down as owners whose client receives the grant. Every script ends with this, whichever client it was for: what an expired lease, or a
-- script that failed half-way, has left free must not stay free while a client waits. Answers the fence and the segment of `me`,
-- how many others have got theirs, whether any still wait, and whether one is awaited that has not connected yet.
--
-- A waiter that was passed over is looked at again only when something has become free: `walked` says how far the search has come.
-- (Of equal tickets all are behind it, or none.)
local function admit(me, my_lease, fence)
  if one_is_awaited(limit - used) then
    return nil, nil, 0, true, true
  end
  local my_fence, my_segment, others, more = nil, nil, 0, nil
  local walked_before, passed, place, batch = walked, nil, 0, 2
  local digits -- of a fence that has not been granted yet
  local stop = false
  while used < limit and not stop do
    local heads = first_heads
    first_heads = nil
    if in_order and not heads then
      heads = redis.call('ZRANGE', queue_key, 0, batch - 1, 'WITHSCORES')
    elseif walked > 0 or place > 0 or not heads then
      heads = redis.call('ZRANGE', queue_key, '(' .. text(walked), '+inf', 'BYSCORE', 'LIMIT', place, batch, 'WITHSCORES')
    end
    for i = 1, #heads, 2 do
      local head, ticket = heads[i], tonumber(heads[i + 1])
      if passed and passed < ticket then
        walked, passed, place = passed, nil, 0
      end
      if used >= limit or steps <= 0 then
        stop, more = true, true
        unfinished = unfinished or used < limit
        break
      end
      local head_id, size, unwanted = string.match(head, '^(%S+) (%d+) (%S+)$')
      -- A client that has just given back, or has its part, no longer waits, whatever it asked for at that place.
      if head_id == id and not me then
        head_id = nil
      end
      local segment = head_id and fit(tonumber(size), unwanted, 0)
      -- A waiter that wants none of all segments costs no step: the next script would come no further.
      if used > 0 or segment or not head_id then
        steps = steps - 1
      end
      if not head_id then
        redis.call('ZREM', queue_key, head)
      elseif not segment then
        more = true
        if in_order then
          stop = true
          break
        end
        passed, place = ticket, place + 1
      else
        if not digits then
          fence, digits = next_fence(fence)
        end
        redis.call('ZREM', queue_key, head)
        size = math.min(tonumber(size), limit)
        if head_id == me then
          own_part(me, size, fence, 'h', my_lease, segment, unwanted)
          steps = steps - 2
          my_fence, my_segment, digits = fence, segment, nil
        else
          local grant = head_id .. ' ' .. digits .. ' ' .. text(now) .. ' ' .. claim .. ' ' .. kind .. segment .. ' ' .. lock_key
          if reach(head_id, grant) then
            own_part(head_id, size, fence, 'c', tonumber(claim), segment, unwanted)
            steps = steps - 2
            digits = nil
            others = others + 1
          end
        end
      end
    end
    if #heads < 2 * batch and not stop then
      walked, stop = passed or walked, true
      if more == nil and walked == 0 then
        more = false
      end
    end
    batch = 20
  end
  if walked ~= walked_before and used > 0 then
    redis.call('HSET', lock_key, 'walked', text(walked))
  end
  if more == nil then
    more = redis.call('EXISTS', queue_key) == 1
  end
  return my_fence, my_segment, others, more
end
