-- Compiled traces, coroutines, strings and garbage.
local function fibonacci(n) if n < 2 then return n end return fibonacci(n - 1) + fibonacci(n - 2) end
local sum = 0
for i = 1, 2e7 do sum = (sum + i * 7) % 1000003 end
local made = coroutine.wrap(function() for i = 1, 1e5 do coroutine.yield(i) end return -1 end)
local count = 0
while made() ~= -1 do count = count + 1 end
local words = {}
for i = 1, 2e5 do words[i % 1000 + 1] = ("word %d"):format(i) end
print(sum, count, fibonacci(27), #table.concat(words))
