-- For holds that have lasted long: their fence is kept for `kept_for` from now, and not before the clock has passed it. A wrong value
-- of that key is reported to the next client that is granted the lock; it does not harm this hold.
local function keep_fence(key, fence, kept_for)
  pcall(function()
    local before = tonumber(redis.call('GET', key) or 0) or 0
    local lives = kept_for + math.max(0, math.ceil((math.max(before, fence) - clock) / 1000))
    if before < fence then
      redis.call('PEXPIRE', key, text(lives)) -- as in lib/vote.lua
      redis.call('SET', key, text(fence), 'PX', text(lives))
    elseif redis.call('PTTL', key) < lives then
      redis.call('PEXPIRE', key, text(lives))
    end
  end)
end
