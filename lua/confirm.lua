-- Confirms and extends votes of many locks, never shortens one, never makes one. A bad key fails alone.
-- KEYS lock fence queue, for each   ARGV retention, shard(lib/channel.lua, or empty), then id lease floor for each; of holds that have lasted long one more, 'keep'
-- Answers {now, result fence, for each}: 1 mine, and no fence above `floor` was given here · 2 mine, but `fence` was
-- · 0 not mine, also where the key holds something else · -1 could not be read or written · or READONLY, at what is a replica now. In any case none at or below `floor` is given from now on.
local retention, shard = tonumber(ARGV[1]), ARGV[2]
-- @include lib/time.lua
-- @include lib/vote.lua
-- @include lib/keep.lua

local keep = ARGV[#ARGV] == 'keep'
local answer, readonly = {now}, nil
for i = 1, #KEYS / 3 do
  local key, fence_key, queue_key = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local id, lease, floor = ARGV[3 * i], tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2])
  local result, before = 0, 0
  local done, problem = pcall(function()
    before = raise_fence(fence_key, floor, retention)
    if keep then
      keep_fence(fence_key, floor, retention)
    end
    local value = redis.pcall('GET', key)
    if type(value) == 'table' then
      result = string.find(value.err, 'WRONGTYPE', 1, true) and 0 or -1
    elseif value and string.sub(value, 1, #id + 1) == id .. ' ' then
      local left = redis.call('PTTL', key)
      if string.sub(value, -1) == 'c' then
        redis.call('PEXPIRE', key, math.max(left, lease)) -- as in lib/vote.lua
        redis.call('SET', key, string.sub(value, 1, -2) .. 'h', 'PX', math.max(left, lease))
        local lock_key = key
        -- @include lib/channel.lua
        -- @include lib/told.lua
        tell_end(queue_key, lease, 3) -- the next waiters know the lease of an earlier owner
      elseif left < lease then
        redis.call('PEXPIRE', key, lease)
      end
      result = before > floor and 2 or 1
    end
  end)
  if not done then
    local words = type(problem) == 'table' and problem.err or problem
    readonly = readonly or string.find(tostring(words), 'READONLY', 1, true)
  end
  answer[2 * i], answer[2 * i + 1] = done and result or -1, before
end
return readonly and redis.error_reply('READONLY the server is a replica now') or answer
