-- An indexed column of one random row.

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local twin = dofile(directory .. "lib/twin.lua")

local update

function thread_init()
  twin.connect()
  update = twin.prepare("UPDATE sbtest1 SET k=k+1 WHERE id=?", twin.INT)
end

function event()
  update {twin.uniform()}
end
