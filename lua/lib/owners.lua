-- The owners of a lock of any kind, for scripts that list them or tell them something. On top of lib/lock.lua.
-- @include lib/part.lua

-- How many there are, what they have, and `all` of them by their fences: {id, fence, state, left, weight, segment}. Of more than 1000
-- owners none is named: that would keep the server from other clients. Answers nothing if the key holds something else.
local function owners_of(key)
  local all, held, taken, limit, kind = {}, 0, 0, 1, 0
  if redis.call('TYPE', key).ok ~= 'hash' then
    local value = redis.call('GET', key)
    if value then
      local id, fence, state = parse(value)
      if not id then
        return nil
      end
      local left = redis.call('PTTL', key)
      all[1] = {id = id, fence = tonumber(fence), state = state, left = left == -1 and longest_lease or left, weight = 1, segment = 0}
      held, taken = 1, 1
    end
  else
    local letter
    local both = redis.call('HMGET', key, 'sums', 'walked')
    letter, limit, taken = parse_sums(both[1])
    if not letter then
      return nil
    end
    kind = string.byte(letter)
    held = redis.call('HLEN', key) - (both[2] and 2 or 1)
    if held <= 1000 then
      local fields = redis.call('HGETALL', key)
      taken = 0
      for i = 1, #fields, 2 do
        local owner = parse_part(fields[i + 1])
        if owner and owner.ends > now then
          owner.id, owner.left = fields[i], math.ceil((owner.ends - now) / 1000)
          all[#all + 1] = owner
          taken = taken + owner.weight
        end
      end
      held = #all
    end
    table.sort(all, function(a, b) return a.fence < b.fence end)
  end
  return {held = held, taken = taken, limit = limit, kind = kind, all = all}
end
