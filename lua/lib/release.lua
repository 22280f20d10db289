-- Gives a mutex back, or leaves its queue: for lua/release.lua, and for each lock of lua/gathered.lua. The caller defines
-- lock_key, queue_key, fence_key, watchers_key, alert_key, and of the request: id, keep, patient, lease, claim, retention, new_id, vote_floor, ahead, shard.
-- @include lib/lock.lua
-- @include lib/pass_on.lua
-- @include lib/vote.lua
-- @include lib/freed.lua

local function free(was_owner)
  local deleted = redis.pcall('DEL', lock_key, alert_key)
  if type(deleted) ~= 'number' then
    deleted = redis.call('DEL', lock_key) -- as in lib/freed.lua
  end
  if deleted > was_owner then
    tell_freed()
  end
end

-- Gives back a lock of this value; `line`: the length of the queue, if known. Answers as lua/release.lua.
local function give_back(value, line)
  local was_owner, floor = 0, math.max(vote_floor or 0, ahead or 0)
  local owner, fence, state

  if value then
    owner, fence, state = parse(value)
    if not owner then
      return not_a_lock()
    end
    if owner == id then
      if keep then
        if extend(lock_key, id, fence, vote_floor and 'h' or state, lease) then
          tell_end(queue_key, lease, 3)
        end
        return {2, tonumber(fence), 0, now}
      end
      was_owner, floor = 1, math.max(floor, tonumber(fence))
    end
  end
  if vote_floor then
    raise_fence(fence_key, vote_floor, retention)
  end

  exact = patient or was_owner == 0
  if was_owner == 0 then
    local was_first = value and redis.call('ZRANGE', queue_key, 0, 0)[1] == id
    redis.call('ZREM', queue_key, id)
    if value then
      local left = redis.call('PTTL', lock_key)
      left = left == -1 and longest_lease or left
      if not new_id then
        -- The next one is first now; or nobody will check that the new owner has taken the lock, since the client that passed it on leaves.
        if was_first or state == 'c' then
          tell_end(queue_key, left, was_first and 1 or 3)
        end
        return {0, 0, 0, now}
      end
      return {0, 0, 1, now, 0, left, (enqueue(new_id, 0, left, lease))}
    end
  end

  -- The owner keeps it; or, if it is free, a waiter asks again, and then it goes to the first.
  if patient and awaited(nil, 1) then
    return {was_owner == 1 and 3 or 0, 0, 1, now}
  end

  gives_back = was_owner == 1 and lock_key
  line = line or redis.call('ZCARD', queue_key)
  if line == 0 then
    if new_id then
      local fence, digits = next_fence(floor)
      own(new_id, digits, 'h', lease)
      return {was_owner, 0, 0, now, 1, fence}
    end
    free(was_owner)
    return {was_owner, 0, 0, now}
  end

  local ticket, is_new
  if new_id then
    ticket, is_new = enqueue(new_id, 0, claim, lease)
    line = is_new and line + 1 or line
  end
  local fence, taken, unfinished, left_line = pass_on(new_id, lease, floor)
  if unfinished then
    redis.call('DEL', lock_key)
  elseif not taken then
    free(was_owner)
  end
  local more = line > left_line and 1 or 0
  if fence then
    return {was_owner, 0, more, now, 1, fence}
  end
  if new_id then
    return {was_owner, unfinished and 2 or 1, more, now, 0, claim, ticket}
  end
  return {was_owner, taken and 1 or unfinished and 2 or 0, more, now}
end
