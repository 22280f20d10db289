-- TIME is read once: a script must see one moment only.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- What fences are counted from: µs since 2020-01-01.
local clock = now - FENCE_EPOCH_US
