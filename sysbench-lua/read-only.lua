-- Ten points and four ranges in one transaction.

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local twin = dofile(directory .. "lib/twin.lua")
local transaction = dofile(directory .. "lib/transaction.lua")

twin.options {
  range = {"Rows of each range", 100},
}

local begin, commit, reads

function thread_init()
  twin.connect()
  begin, commit = twin.prepare("BEGIN"), twin.prepare("COMMIT")
  reads = transaction.reads(twin, sysbench.opt.range)
end

function event()
  begin {}
  reads()
  commit {}
end
