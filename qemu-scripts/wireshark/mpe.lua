-- SPDX-License-Identifier: GPL-2.0
--
-- Wireshark and tshark: the headers of FLUSH and ATOMIC WRITE, which Wireshark 4.0 does not know.
--
--	install -D -t ~/.local/lib/wireshark/plugins qemu-scripts/wireshark/mpe.lua
--
-- Wireshark's own dissector has done the BTH before this one looks at the packet.  The fields have the
-- same names whatever the version: mpe.feth.plt, mpe.reth.va and so on.

local FLUSH, ATOMIC_WRITE = 28, 29	-- BTH opcodes, RC
local BTH, FETH, RETH, DATA, ICRC = 12, 4, 16, 8, 4

local mpe = Proto("mpe", "Memory Placement Extensions")
local f = {
	name	= ProtoField.string("mpe.name", "Request"),
	plt	= ProtoField.uint32("mpe.feth.plt", "Placement type", base.HEX, nil, 0xf),
	global	= ProtoField.bool("mpe.feth.plt.global", "Global visibility", 32, nil, 0x1),
	persistent = ProtoField.bool("mpe.feth.plt.persistent", "Persistence", 32, nil, 0x2),
	sel	= ProtoField.uint32("mpe.feth.sel", "Selectivity", base.DEC,
			{ [0] = "range", [1] = "memory region" }, 0x30),
	reserved = ProtoField.uint32("mpe.feth.reserved", "Reserved", base.HEX, nil, 0xffffffc0),
	va	= ProtoField.uint64("mpe.reth.va", "Virtual address", base.HEX),
	r_key	= ProtoField.uint32("mpe.reth.r_key", "Remote key", base.HEX),
	dmalen	= ProtoField.uint32("mpe.reth.dmalen", "DMA length"),
	data	= ProtoField.bytes("mpe.data", "Data"),
	icrc	= ProtoField.uint32("mpe.icrc", "Invariant CRC", base.HEX),
}
local length = ProtoExpert.new("mpe.length", "Not the length of this request",
	expert.group.MALFORMED, expert.severity.ERROR)
mpe.fields = f
mpe.experts = { length }

local bth, opcode = Field.new("infiniband.bth"), Field.new("infiniband.bth.opcode")

local function add_feth(tree, range)
	local feth = tree:add(range, "FLUSH Extended Transport Header")
	for _, field in ipairs({ f.plt, f.global, f.persistent, f.sel, f.reserved }) do
		feth:add(field, range)
	end
end

local function add_reth(tree, range)
	local reth = tree:add(range, "RDMA Extended Transport Header")
	reth:add(f.va, range(0, 8))
	reth:add(f.r_key, range(8, 4))
	reth:add(f.dmalen, range(12, 4))
end

function mpe.dissector(tvb, pinfo, root)
	local code = opcode() and opcode().value
	if code ~= FLUSH and code ~= ATOMIC_WRITE then
		return
	end

	local name = code == FLUSH and "RC FLUSH" or "RC ATOMIC WRITE"
	local packet = tvb(bth().offset + BTH)
	local want = (code == FLUSH and FETH or DATA) + RETH + ICRC
	local tree = root:add(mpe, packet)
	tree:add(f.name, name):set_generated()
	pinfo.cols.info:set((tostring(pinfo.cols.info):gsub("Unknown OpCode", name .. " ")))
	if packet:len() ~= want then
		tree:add_proto_expert_info(length)
	end
	if packet:len() < want then
		return
	end

	if code == FLUSH then
		add_feth(tree, packet(0, FETH))
		add_reth(tree, packet(FETH, RETH))
	else
		add_reth(tree, packet(0, RETH))
		tree:add(f.data, packet(RETH, DATA))
	end
	tree:add(f.icrc, packet(packet:len() - ICRC, ICRC))
end

register_postdissector(mpe)
