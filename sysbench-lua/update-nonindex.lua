-- A column without an index, of one row; how that row is chosen is an option.

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local twin = dofile(directory .. "lib/twin.lua")

twin.options {
  id = {"uniform, uniform(N) for ids from 1 to N, or zipfian(EXPONENT)", "uniform"},
}

local update, id

function thread_init()
  twin.connect()
  update = twin.prepare("UPDATE sbtest1 SET c=? WHERE id=?", twin.C, twin.INT)
  id = twin.distribution(sysbench.opt.id)
end

function event()
  update {id()}
end
