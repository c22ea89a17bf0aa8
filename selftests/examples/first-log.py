#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# mypy: ignore-errors
"""A log with pyverbs of rdma-core 45 or newer, without rdma_cm: TCP tells each end of the other.

    first-log.py target ADDRESS DEVICE        lends the memory, such as /dev/dax0.0, and prints the tail in the end
    first-log.py initiator ADDRESS RECORDS    appends records, one by one
"""
import ctypes
import mmap
import socket
import struct
import sys

try:
    import pyverbs.enums as e
    from pyverbs.addr import AHAttr, GID, GlobalRoute
    from pyverbs.cq import CQ
    from pyverbs.device import Context
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx
    from pyverbs.wr import SGE
except ImportError as error:
    sys.exit(f"{error}: install python3-pyverbs of Debian 13 or newer, or run `make rdma-core` in rxe-mpe")

PORT, SGID, SIZE, RECORD = 7474, 1, 2 << 20, 64
OPS = e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_FLUSH | e.IBV_QP_EX_WITH_ATOMIC_WRITE
LENT = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_FLUSH_PERSISTENT
ENDS = struct.Struct("IQI39s")  # QP, address and key of the memory, GID


def connect(context, qp, tcp, address=0, rkey=0):
    """Tell the other end of this one, and connect the QP with what it tells: its address and key."""
    tcp.sendall(ENDS.pack(qp.qp_num, address, rkey, str(context.query_gid(1, SGID).gid).encode()))
    number, address, rkey, gid = ENDS.unpack(tcp.recv(ENDS.size, socket.MSG_WAITALL))
    route = GlobalRoute(dgid=GID(gid.decode()), sgid_index=SGID, hop_limit=64)
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_FLUSH_PERSISTENT
    attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    attr.dest_qp_num, attr.path_mtu = number, context.query_port(1).active_mtu
    # Of one post: FLUSH, ATOMIC WRITE, FLUSH.
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 3
    # 7 retries would be without end on a stock kernel.
    attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 14, 6, 7, 12
    qp.to_rts(attr)
    return address, rkey


def open_qp():
    context = Context(name="rxe0")
    pd, cq = PD(context), CQ(context, 8)
    init = QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4), pd=pd, send_ops_flags=OPS,
                        comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
    return context, pd, cq, QPEx(context, init)


def target(here, device):
    context, pd, _cq, qp = open_qp()
    with open(device, "r+b") as file:
        memory = mmap.mmap(file.fileno(), SIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    mr = MR(pd, SIZE, LENT, address)
    family = socket.AF_INET6 if ":" in here else socket.AF_INET
    tcp, _ = socket.create_server((here, PORT), family=family).accept()
    connect(context, qp, tcp, address, mr.rkey)
    tcp.sendall(b"+")  # this end is ready
    tcp.recv(1)  # the initiator is done
    print("the tail is", int.from_bytes(memory[:8], "little"))


def append(qp, cq, words, address, rkey, record):
    """WRITE the record, make it durable, count it in the tail, make that durable: posted at once."""
    to, tail = address + RECORD * (record + 1), (record + 1).to_bytes(8, "little")
    words.write(tail * (RECORD // 8), RECORD)
    qp.wr_start()
    qp.wr_flags = 0
    qp.wr_rdma_write(rkey, to)
    qp.wr_set_sge(SGE(words.buf, RECORD, words.lkey))
    qp.wr_flush(rkey, to, RECORD, e.IBV_FLUSH_PERSISTENT, e.IBV_FLUSH_RANGE)
    qp.wr_atomic_write(rkey, address, tail)
    qp.wr_flags = e.IBV_SEND_SIGNALED
    qp.wr_flush(rkey, address, 8, e.IBV_FLUSH_PERSISTENT, e.IBV_FLUSH_RANGE)
    qp.wr_complete()
    done = []
    while not done:
        _, done = cq.poll()
    if done[0].status != e.IBV_WC_SUCCESS:
        sys.exit(f"record {record}: status {done[0].status}")


def initiator(peer, records):
    context, pd, cq, qp = open_qp()
    words = MR(pd, RECORD, e.IBV_ACCESS_LOCAL_WRITE)
    tcp = socket.create_connection((peer, PORT))
    address, rkey = connect(context, qp, tcp)
    tcp.recv(1)
    for record in range(records):
        append(qp, cq, words, address, rkey, record)
        print(f"record {record} is durable", flush=True)  # a promise counts when it is out
    tcp.sendall(b"-")


if sys.argv[1:2] == ["target"] and len(sys.argv) == 4:
    target(sys.argv[2], sys.argv[3])
elif sys.argv[1:2] == ["initiator"] and len(sys.argv) == 4:
    initiator(sys.argv[2], int(sys.argv[3]))
else:
    sys.exit(__doc__)
