/* Nodes made by hand, each with exactly one fault; and the same nodes without it, about which nothing may be said. */
#include "check/node/health.h"
#include "test.h"

#define HEAD4 "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\n"
#define ROW(g, a, b, c, d, n0, n1, n2, n3, cpus, numa)                                                                 \
  "GPU" #g "\t" a "\t" b "\t" c "\t" d "\t" n0 "\t" n1 "\t" n2 "\t" n3 "\t" cpus "\t" numa "\n"
#define ROW0 ROW(0, "X", "NV18", "NV18", "NV18", "PIX", "NODE", "SYS", "SYS", "0-15", "0")
#define ROW1 ROW(1, "NV18", "X", "NV18", "NV18", "NODE", "PIX", "SYS", "SYS", "0-15", "0")
#define ROW2 ROW(2, "NV18", "NV18", "X", "NV18", "SYS", "SYS", "PIX", "NODE", "16-31", "1")
#define ROW3 ROW(3, "NV18", "NV18", "NV18", "X", "SYS", "SYS", "NODE", "PIX", "16-31", "1")

#define GPU(bus, inside)                                                                                               \
  "<gpu id=\"00000000:" bus                                                                                            \
  ":00.0\"><product_name>NVIDIA H100 80GB HBM3</product_name><performance_state>P0</performance_state>" inside         \
  "</gpu>\n"
#define PCIE(gen, width)                                                                                               \
  "<pci><pci_gpu_link_info><pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>" gen                             \
  "</current_link_gen><max_device_link_gen>5</max_device_link_gen></pcie_gen><link_widths><max_link_width>16x</"       \
  "max_link_width><current_link_width>" width "x</current_link_width></link_widths></pci_gpu_link_info></pci>"
#define SMI(inside)                                                                                                    \
  "<nvidia_smi_log><driver_version>550.54.15</driver_version><attached_gpus>2</attached_gpus>\n" inside                \
  "</nvidia_smi_log>\n"
#define PAIR(inside) SMI(GPU("19", PCIE("5", "16")) GPU("3b", PCIE("5", "16") inside))

#define PORT(name, state, phys, rate, more)                                                                            \
  name "/board_id: MT_1\n" name "/fw_ver: 28.41.1000\n" name "/ports/1/rate: " rate " Gb/sec (4X NDR)\n" name          \
       "/ports/1/state: " state "\n" name "/ports/1/phys_state: " phys "\n" name                                       \
       "/ports/1/counters/port_rcv_data: 230539874932483\n" name                                                       \
       "/ports/1/counters/port_rcv_packets: 317548853677\n" more
#define GOOD_PORT                                                                                                      \
  PORT("mlx5_0", "4: ACTIVE", "5: LinkUp", "400",                                                                      \
       "mlx5_0/ports/1/counters/symbol_error: 0\nmlx5_0/ports/1/counters/link_downed: 0\n")

#define BRIDGE(bus, second, last, acs)                                                                                 \
  bus " PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)\n\tNUMA node: 0\n\tBus: primary=00, "           \
      "secondary=" second ", subordinate=" last                                                                        \
      ", sec-latency=0\n\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM\n\tLnkSta:\tSpeed 32GT/s (ok), Width x16 "   \
      "(ok)\n\tACSCtl:\tSrcValid" acs " TransBlk- ReqRedir" acs " CmpltRedir" acs "\n"
#define CARD(bus, what, sta)                                                                                           \
  bus " " what "\n\tNUMA node: 0\n\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM\n\tLnkSta:\t" sta "\n"
#define H100 "3D controller: NVIDIA Corporation Device 2330 (rev a1)"
#define CX7  "Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]"
#define TREE(acs, gpu, nic)                                                                                            \
  BRIDGE("15:01.0", "16", "1c", "-")                                                                                   \
  BRIDGE("16:00.0", "17", "1c", "-")                                                                                   \
  BRIDGE("17:01.0", "19", "19", acs)                                                                                   \
  BRIDGE("17:02.0", "1a", "1a", "-") CARD("19:00.0", H100, gpu) CARD("1a:00.0", CX7, nic)
#define FULL "Speed 32GT/s (ok), Width x16 (ok)"

#define NCCL "node1:10:20 [0] NCCL INFO "

typedef struct fault {
  const char *name, *text;
  const char *rule, *severity, *device; /* NULL rule: nothing above a note may be found */
  const char *word;                     /* in what is said */
  int line;                             /* of the evidence, 0 any */
  const char *on;
} fault;

static const fault faults[] = {
    {"a healthy matrix", HEAD4 ROW0 ROW1 ROW2 ROW3, NULL, NULL, NULL, NULL, 0, NULL},
    {"a pair over SYS",
     HEAD4 ROW0 ROW(1, "NV18", "X", "NV18", "SYS", "NODE", "PIX", "SYS", "SYS", "0-15", "0")
         ROW2 ROW(3, "NV18", "SYS", "NV18", "X", "SYS", "SYS", "NODE", "PIX", "16-31", "1"),
     "nvlink-path", "error", "GPU3–GPU1", "SYS", 3, NULL},
    {"a pair over PHB",
     HEAD4 ROW(0, "X", "PHB", "NV18", "NV18", "PIX", "NODE", "SYS", "SYS", "0-15", "0")
         ROW(1, "PHB", "X", "NV18", "NV18", "NODE", "PIX", "SYS", "SYS", "0-15", "0") ROW2 ROW3,
     "nvlink-path", "error", "GPU1–GPU0", "PHB", 2, NULL},
    {"fewer links to one GPU",
     HEAD4 ROW(0, "X", "NV18", "NV18", "NV17", "PIX", "NODE", "SYS", "SYS", "0-15", "0")
         ROW1 ROW2 ROW(3, "NV17", "NV18", "NV18", "X", "SYS", "SYS", "NODE", "PIX", "16-31", "1"),
     "nvlink-path", "error", "GPU3–GPU0", "NV17", 2, NULL},
    {"a bridge in partial contact", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tNV3\t0-47\nGPU1\tNV3\tX\t0-47\n",
     "nvlink-path", "error", "GPU1–GPU0", "NV4", 2, NULL},
    {"a good bridge", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tNV4\t0-47\nGPU1\tNV4\tX\t0-47\n", NULL, NULL, NULL, NULL, 0,
     NULL},
    {"a mesh with a lost link",
     "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU "
     "Affinity\nGPU0\tX\tNV2\tNV1\tNODE\t0-3\nGPU1\tNV2\tX\tNODE\tNV1\t0-3\nGPU2\tNV1\tNODE\tX\tNV1\t0-"
     "3\nGPU3\tNODE\tNV1\tNV1\tX\t0-3\n",
     "nvlink-links", "error", "GPU2", "other GPUs have 3", 0, NULL},
    {"all over PCIe on a board with NVSwitches", "\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tSYS\tX\n", "nvlink-path", "error",
     "GPU1–GPU0", "NV18", 2, "2xh100-sxm"},
    {"links up",
     "GPU 0: Card\n Link 0: 26.562 GB/s\n Link 1: 26.562 GB/s\nGPU 1: Card\n Link 0: 26.562 GB/s\n Link 1: 26.562 "
     "GB/s\n",
     NULL, NULL, NULL, NULL, 0, NULL},
    {"an inactive link",
     "GPU 0: Card\n Link 0: 26.562 GB/s\n Link 1: 26.562 GB/s\nGPU 1: Card\n Link 0: 26.562 GB/s\n Link 1: "
     "<inactive>\n",
     "nvlink-links", "error", "GPU1", "1 of 2 NVLinks inactive (links 1)", 6, NULL},
    {"a slow link", "GPU 0: Card\n Link 0: 26.562 GB/s\n Link 1: 13.281 GB/s\n", "nvlink-links", "error", "GPU0",
     "13.3 GB/s", 3, NULL},
    {"link errors", "GPU 0: Card\n Link 0: 26.562 GB/s\n Link 0: Replay Errors: 512\n", "nvlink-errors", "error",
     "GPU0", "512", 3, NULL},
    {"fabric not set up", PAIR("<fabric><state>In Progress</state></fabric>"), "nvswitch", "error", "GPU1",
     "In Progress", 3, NULL},
    {"peer access refused", " \tGPU0\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX\n", "peer-access", "error", "GPU1–GPU0", "CNS",
     0, NULL},
    {"a healthy pair", PAIR(""), NULL, NULL, NULL, NULL, 0, NULL},
    {"a narrow PCIe link", SMI(GPU("19", PCIE("5", "16")) GPU("3b", PCIE("5", "8"))), "pcie-link", "error", "GPU1",
     "8 of 16 lanes", 3, NULL},
    {"a slow PCIe link", SMI(GPU("19", PCIE("5", "16")) GPU("3b", PCIE("3", "16"))), "pcie-link", "error", "GPU1",
     "PCIe 3", 3, NULL},
    {"an idle GPU on a slow link",
     SMI(GPU("19", PCIE("1", "16") "<clocks_event_reasons><clocks_event_reason_gpu_idle>Active</"
                                   "clocks_event_reason_gpu_idle></clocks_event_reasons>")),
     NULL, NULL, NULL, NULL, 0, NULL},
    {"a healthy PCI tree", TREE("-", FULL, FULL), NULL, NULL, NULL, NULL, 0, NULL},
    {"ACS above a GPU", TREE("+", FULL, FULL), "acs", "error", "0000:17:01.0", "ReqRedir", 18, NULL},
    {"a NIC trained down", TREE("-", FULL, "Speed 16GT/s (downgraded), Width x16 (ok)"), "pcie-link", "error",
     "NIC 0000:1a:00.0", "PCIe 4", 0, NULL},
    {"a GPU at half width", TREE("-", "Speed 32GT/s (ok), Width x8 (downgraded)", FULL), "pcie-link", "error", "GPU0",
     "8 of 16 lanes", 0, NULL},
    {"a NIC far from its GPU",
     HEAD4 ROW0 ROW1 ROW2 ROW(3, "NV18", "NV18", "NV18", "X", "SYS", "SYS", "NODE", "SYS", "16-31", "1"),
     "nic-distance", "error", "GPU3", "NODE", 0, NULL},
    {"too few NICs",
     HEAD4 ROW(0, "X", "NV18", "NV18", "NV18", "PXB", "SYS", "SYS", "SYS", "0-15", "0")
         ROW(1, "NV18", "X", "NV18", "NV18", "PXB", "SYS", "SYS", "SYS", "0-15", "0")
             ROW(2, "NV18", "NV18", "X", "NV18", "SYS", "SYS", "PXB", "SYS", "16-31", "1")
                 ROW(3, "NV18", "NV18", "NV18", "X", "SYS", "SYS", "PXB", "SYS", "16-31", "1"),
     "nic-count", "error", "", "2 NICs", 0, "4xh100-sxm"},
    {"reversed rails",
     HEAD4 ROW(0, "X", "NV18", "NV18", "NV18", "SYS", "SYS", "NODE", "PIX", "0-15", "0")
         ROW(1, "NV18", "X", "NV18", "NV18", "SYS", "SYS", "PIX", "NODE", "0-15", "0")
             ROW(2, "NV18", "NV18", "X", "NV18", "NODE", "PIX", "SYS", "SYS", "16-31", "1")
                 ROW(3, "NV18", "NV18", "NV18", "X", "PIX", "NODE", "SYS", "SYS", "16-31", "1"),
     "rail-order", "warning", "", "reverse", 0, NULL},
    {"hidden NUMA nodes",
     "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tSYS\t0-31\tN/A\nGPU1\tSYS\tX\t0-31\tN/A\n", "affinity",
     "warning", "", "hidden", 0, NULL},
    {"wrong NUMA node", "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tSYS\t0-31\t0\nGPU1\tSYS\tX\t0-31\t0\n",
     "affinity", "error", "GPU1", "crosses sockets", 0, NULL},
    {"no GPUDirect RDMA",
     "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:10:00.0\" class=\"0x060400\"><pci "
     "busid=\"0000:11:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\"/><pci busid=\"0000:12:00.0\" "
     "class=\"0x020700\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" "
     "gdr=\"0\"/></nic></pci></pci></cpu></system>",
     "gpudirect-rdma", "error", "mlx5_0", "gdr", 0, NULL},
    {"thermal slowdown",
     PAIR("<clocks_event_reasons><clocks_event_reason_hw_thermal_slowdown>Active</"
          "clocks_event_reason_hw_thermal_slowdown></clocks_event_reasons>"),
     "throttling", "error", "GPU1", "heat", 3, NULL},
    {"power brake",
     PAIR("<clocks_event_reasons><clocks_event_reason_hw_power_brake_slowdown>Active</"
          "clocks_event_reason_hw_power_brake_slowdown></clocks_event_reasons>"),
     "throttling", "error", "GPU1", "power brake", 3, NULL},
    {"power cap is usual",
     PAIR("<clocks_event_reasons><clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap></"
          "clocks_event_reasons>"),
     NULL, NULL, NULL, NULL, 0, NULL},
    {"a lower power limit",
     PAIR("<gpu_power_readings><current_power_limit>500.00 W</current_power_limit><default_power_limit>700.00 "
          "W</default_power_limit></gpu_power_readings>"),
     "power-limit", "warning", "GPU1", "500 W", 3, NULL},
    {"too hot",
     PAIR(
         "<temperature><gpu_temp>90 C</gpu_temp><gpu_temp_slow_threshold>87 C</gpu_temp_slow_threshold></temperature>"),
     "temperature", "error", "GPU1", "90 °C", 3, NULL},
    {"uncorrected ECC",
     PAIR("<ecc_errors><volatile><dram_uncorrectable>3</dram_uncorrectable></volatile></ecc_errors>"), "ecc", "error",
     "GPU1", "3 uncorrected", 3, NULL},
    {"a row to remap", PAIR("<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>"),
     "row-remap", "error", "GPU1", "waits", 3, NULL},
    {"remapping failed", PAIR("<remapped_rows><remapped_row_failure>Yes</remapped_row_failure></remapped_rows>"),
     "row-remap", "error", "GPU1", "failed", 3, NULL},
    {"MIG on", PAIR("<mig_mode><current_mig>Enabled</current_mig></mig_mode>"), "mig", "warning", "GPU1", "MIG", 3,
     NULL},
    {"a reset is due", PAIR("<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>"),
     "reset-required", "error", "GPU1", "reset", 3, NULL},
    {"another firmware",
     SMI(GPU("19", PCIE("5", "16") "<vbios_version>96.1</vbios_version>")
             GPU("3b", PCIE("5", "16") "<vbios_version>96.1</vbios_version>")
                 GPU("5d", PCIE("5", "16") "<vbios_version>96.2</vbios_version>")),
     "mixed", "warning", "GPU2", "96.2", 4, NULL},
    {"a slower clock",
     SMI(GPU("19", PCIE("5", "16") "<utilization><gpu_util>99 %</gpu_util></utilization><clocks><sm_clock>1980 "
                                   "MHz</sm_clock></clocks>")
             GPU("3b", PCIE("5", "16") "<utilization><gpu_util>99 %</gpu_util></utilization><clocks><sm_clock>1200 "
                                       "MHz</sm_clock></clocks>")
                 GPU("5d", PCIE("5", "16") "<utilization><gpu_util>99 %</gpu_util></utilization><clocks><sm_clock>1965 "
                                           "MHz</sm_clock></clocks>")),
     "throttling", "error", "GPU1", "1200 MHz", 3, NULL},
    {"a healthy port", GOOD_PORT, NULL, NULL, NULL, NULL, 0, NULL},
    {"a port down", GOOD_PORT PORT("mlx5_1", "1: DOWN", "3: Disabled", "400", ""), "port-state", "error", "mlx5_1",
     "DOWN", 13, NULL},
    {"a slower port", GOOD_PORT PORT("mlx5_1", "4: ACTIVE", "5: LinkUp", "200", ""), "port-state", "error", "mlx5_1",
     "200 Gb/s", 12, NULL},
    {"symbol errors", PORT("mlx5_0", "4: ACTIVE", "5: LinkUp", "400", "mlx5_0/ports/1/counters/symbol_error: 123456\n"),
     "port-errors", "error", "mlx5_0", "symbol", 8, NULL},
    {"a flapping link", PORT("mlx5_0", "4: ACTIVE", "5: LinkUp", "400", "mlx5_0/ports/1/counters/link_downed: 30\n"),
     "port-errors", "error", "mlx5_0", "30 times", 8, NULL},
    {"mixed NIC firmware",
     GOOD_PORT
     "mlx5_1/board_id: MT_1\nmlx5_1/fw_ver: 28.35\nmlx5_1/ports/1/rate: 400 Gb/sec\nmlx5_1/ports/1/state: 4: ACTIVE\n",
     "mixed", "warning", "mlx5_1", "28.35", 11, NULL},
    {"an XID", "[1] NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.\n", "xid", "error",
     "GPU 0000:9b:00", "79", 1, NULL},
    {"an application's XID", "[1] NVRM: Xid (PCI:0000:9b:00): 43, pid=1, Ch 00000008\n", "xid", "note",
     "GPU 0000:9b:00", "43", 1, NULL},
    {"an SXid", "[1] nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n", "sxid",
     "error", "NVSwitch 0000:86:00.0", "20034", 1, NULL},
    {"driver and library apart", "[1] NVRM: API mismatch: the client has the version 550.1, but\n", "kernel", "error",
     "", "versions", 1, NULL},
    {"P2P switched off", "export NCCL_P2P_DISABLE=1\n", "environment", "error", "NCCL_P2P_DISABLE",
     "NCCL_P2P_DISABLE=1", 1, NULL},
    {"P2P not switched off", "NCCL_P2P_DISABLE=0\nNCCL_DEBUG=INFO\n", NULL, NULL, NULL, NULL, 0, NULL},
    {"an algorithm left over", "mpirun -np 8 -x NCCL_ALGO=Ring ./all_reduce_perf\n", "environment", "warning",
     "NCCL_ALGO", "NCCL_ALGO=Ring", 1, NULL},
    {"a prefix of NICs", "NCCL_IB_HCA=mlx5_1\n", "environment", "warning", "NCCL_IB_HCA", "prefix", 1, NULL},
    {"whole names of NICs", "NCCL_IB_HCA==mlx5_1\n", NULL, NULL, NULL, NULL, 0, NULL},
    {"loopback as interface", "NCCL_SOCKET_IFNAME=lo\n", "environment", "error", "NCCL_SOCKET_IFNAME", "lo", 1, NULL},
    {"a misspelt variable", "NCCL_IB_HCAS=mlx5_0\n", "environment", "warning", "NCCL_IB_HCAS", "NCCL_IB_HCA", 1, NULL},
    {"good channels",
     NCCL "NVLS multicast support is available on dev 0\n" NCCL "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n" NCCL
          "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA\n" NCCL
          "24 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer\n",
     NULL, NULL, NULL, NULL, 0, NULL},
    {"channels over host memory",
     NCCL "NVLS multicast support is available on dev 0\n" NCCL "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n",
     "nccl-transport", "error", "", "1 of 1 channels", 2, NULL},
    {"channels over sockets", NCCL "Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0\n", "nccl-network", "error", "",
     "TCP sockets", 1, NULL},
    {"network without GPUDirect", NCCL "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0\n", "gpudirect-rdma", "error",
     "", "1 of 1 network channels", 1, NULL},
    {"no NVLS", NCCL "NVLS multicast support is not available on dev 3\n", "nvls", "warning", "", "NVLS", 1, NULL},
    {"peer access lost between linked GPUs",
     "n:1:2 [0] misc/nvmlwrap.cc:300 NCCL WARN P2P is disabled between NVLINK connected GPUs 1 and 0. This should not "
     "be the case\n",
     "nccl-transport", "error", "", "peer access", 1, NULL},
    {"a retry exceeded", "n:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4> with status=12 opcode=0\n",
     "nccl-errors", "error", "", "acknowledged", 1, NULL},
    {"too small a /dev/shm",
     "n:1:2 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 33030532 bytes: No space "
     "left on device\n",
     "nccl-errors", "error", "", "/dev/shm", 1, NULL},
    {"GPUDirect through gdsio not used",
     "IoType: READ XferType: CPU_GPU Threads: 8 DataSetSize: 1/1(KiB) IOSize: 1024(KiB) Throughput: 6.1 GiB/sec, "
     "Avg_Latency: 1 usecs\n",
     "storage", "warning", "gdsio", "CPU_GPU", 1, NULL},
    {"a slow port by ib_write_bw",
     " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 8388608    20000            "
     "100.1            99.8   0.003\n",
     "benchmark", "error", "write", "400 Gb/s", 0, "2xdgx-h100"},
    {"a slow drive",
     "{\"fio version\":\"fio-3.33\",\"jobs\":[{\"job "
     "options\":{\"bs\":\"1M\"},\"read\":{\"bw_bytes\":900000000},\"write\":{\"bw_bytes\":0}}]}",
     "storage", "warning", "read", "fio", 0, "dgx-h100"},
    {"a good drive", "  read: IOPS=6200, BW=6200MiB/s (6501MB/s)(60GiB/10001msec)\n", NULL, NULL, NULL, NULL, 0,
     "dgx-h100"},
    {"links all inactive on one GPU",
     "GPU 0: Card\n Link 0: 26.562 GB/s\nGPU 1: Card\n\tNVML: Unable to retrieve NVLink information as all links are "
     "inActive\n",
     "nvlink-links", "error", "GPU1", "no NVLink is active", 4, NULL},
    {"links all inactive on all GPUs",
     "GPU 0: NVIDIA H100 80GB HBM3\nUnable to retrieve NVLink information as all links are inActive\nGPU 1: NVIDIA "
     "H100 "
     "80GB HBM3\nUnable to retrieve NVLink information as all links are inActive\n",
     "nvlink-links", "error", "GPU0", "no NVLink is active", 2, NULL},
    {"a GPU without links in the listing",
     "GPU 0: Card\n Link 0: 26.562 GB/s\nGPU 1: Card\nGPU 2: Card\n Link 0: 26.562 "
     "GB/s\n",
     "nvlink-links", "error", "GPU1", "no NVLink of it is listed", 3, NULL},
    {"a GPU left out of the listing", "GPU 0: Card\n Link 0: 26.562 GB/s\nGPU 2: Card\n Link 0: 26.562 GB/s\n",
     "gpu-count", "error", "", "GPU1", 0, NULL},
    {"links lost alike on all pairs", "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV9\tNV9\nGPU1\tNV9\tX\tNV9\nGPU2\tNV9\tNV9\tX\n",
     "nvlink-path", "error", "GPU1–GPU0", "should be by NV12", 2, NULL},
    {"links lost alike on all pairs of a board that is known",
     "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV12\tNV12\nGPU1\tNV12\tX\tNV12\nGPU2\tNV12\tNV12\tX\n" SMI(
         GPU("19", PCIE("5", "16")) GPU("3b", PCIE("5", "16")) GPU("5d", PCIE("5", "16"))),
     "nvlink-path", "error", "GPU1–GPU0", "should be by NV18", 2, NULL},
    {"fabric not joined", PAIR("<fabric><state>Completed</state><status>Failure</status></fabric>"), "nvswitch",
     "error", "GPU1", "Failure", 3, NULL},
    {"fabric degraded",
     PAIR("<fabric><state>Completed</state><status>Success</status><health><bandwidth>Degraded</bandwidth></health></"
          "fabric>"),
     "nvswitch", "error", "GPU1", "Degraded", 3, NULL},
    {"a healthy fabric",
     PAIR(
         "<fabric><state>Completed</state><status>Success</status><health><bandwidth>Full</bandwidth><summary>Healthy</"
         "summary></health></fabric><gpu_recovery_action>None</"
         "gpu_recovery_action><gpu_reset_status><reset_required>No</"
         "reset_required><drain_and_reset_recommended>No</drain_and_reset_recommended></gpu_reset_status>"),
     NULL, NULL, NULL, NULL, 0, NULL},
    {"an action is asked for", PAIR("<gpu_recovery_action>Reboot</gpu_recovery_action>"), "reset-required", "error",
     "GPU1", "Reboot", 3, NULL},
    {"drain and reset",
     PAIR("<gpu_reset_status><reset_required>No</reset_required><drain_and_reset_recommended>Yes</"
          "drain_and_reset_recommended></gpu_reset_status>"),
     "reset-required", "error", "GPU1", "drain", 3, NULL},
    {"a GPU that cannot be read", PAIR("<gpu_power_readings><power_draw>ERR!</power_draw></gpu_power_readings>"),
     "gpu-answers", "error", "GPU1", "power_draw: ERR!", 3, NULL},
    {"a GPU with unknown errors", PAIR("<fan_speed>[Unknown Error]</fan_speed>"), "gpu-answers", "error", "GPU1",
     "fan_speed", 3, NULL},
    {"worn memory on the chip",
     PAIR("<ecc_errors><aggregate><sram_threshold_exceeded>Yes</sram_threshold_exceeded></aggregate></ecc_errors>"),
     "ecc", "error", "GPU1", "threshold", 3, NULL},
    {"fewer described than attached",
     "<nvidia_smi_log><driver_version>550.54.15</driver_version><attached_gpus>3</attached_gpus>\n" GPU(
         "19", PCIE("5", "16")) GPU("3b", PCIE("5", "16")) "</nvidia_smi_log>\n",
     "gpu-count", "error", "", "3 GPUs are attached, 2 are described", 0, NULL},
    {"a GPU off the bus by lspci",
     "19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n",
     "gpu-count", "error", "GPU0", "rev ff", 2, NULL},
    {"hidden NUMA nodes on NVSwitches",
     HEAD4 ROW(0, "X", "NV18", "NV18", "NV18", "PIX", "NODE", "SYS", "SYS", "0-31", "N/A")
         ROW(1, "NV18", "X", "NV18", "NV18", "NODE", "PIX", "SYS", "SYS", "0-31", "N/A")
             ROW(2, "NV18", "NV18", "X", "NV18", "SYS", "SYS", "PIX", "NODE", "0-31", "N/A")
                 ROW(3, "NV18", "NV18", "NV18", "X", "SYS", "SYS", "NODE", "PIX", "0-31", "N/A"),
     "affinity", "warning", "", "hidden", 0, NULL},
    {"two models, each with its firmware",
     SMI("<gpu id=\"00000000:19:00.0\"><product_name>NVIDIA H100 80GB "
         "HBM3</product_name><vbios_version>96.1</vbios_version>"
         "</gpu><gpu id=\"00000000:3b:00.0\"><product_name>NVIDIA H100 "
         "PCIe</product_name><vbios_version>95.7</vbios_version>"
         "</gpu>\n"),
     "mixed", "error", "GPU1", "model", 0, NULL},
    {"chips alike on boards that are not",
     "CA 'mlx5_0'\n\tCA type: MT4129\n\tFirmware version: 28.39.1002\n\tPort 1:\n\t\tState: Active\n\t\tPhysical "
     "state: "
     "LinkUp\n\t\tRate: 400\nCA 'mlx5_1'\n\tCA type: MT4129\n\tFirmware version: 28.35.1012\n\tPort 1:\n\t\tState: "
     "Active\n\t\tPhysical state: LinkUp\n\t\tRate: 200\n",
     NULL, NULL, NULL, NULL, 0, NULL},
    {"one GPU's copies are slow",
     "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1    "
     "     2         3\n 0     55.10     55.00     13.20     55.20\n\nSUM host_to_device_memcpy_ce 178.5\n",
     "benchmark", "error", "host_to_device_memcpy_ce", "13.2 GB/s", 4, NULL},
};

static void read_text(mal_health *h, const char *name, const char *text) {
  mal_paste p;
  mal_error e;
  mal_paste_make(h->arena, name, text, strlen(text), &p);
  assert_ok(mal_health_read(h, &p, &e), e);
}

static const mal_finding *wanted(const mal_health *h, const fault *f) {
  for (int i = 0; i < h->n_findings; i++) {
    const mal_finding *x = &h->findings[i];
    if (strcmp(mal_rule_name[x->rule], f->rule) == 0 && strcmp(x->device, f->device) == 0 &&
        strcmp(mal_severity_name[x->severity], f->severity) == 0)
      return x;
  }
  return NULL;
}

static int failures;
static void wrong(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  failures++;
}

static void check_one(const fault *f) {
  mal_arena a;
  mal_health h;
  mal_error e;
  mal_arena_init(&a);
  mal_health_init(&h, &a);
  read_text(&h, f->name, f->text);
  if (h.n_unread) wrong("%s: nothing is recognised", f->name);
  assert_ok(mal_health_judge(&h, f->on, &e), e);
  const mal_finding *x = f->rule ? wanted(&h, f) : NULL;
  if (f->rule && !x)
    wrong("%s: no %s %s of '%s' among %d findings (first: %s)", f->name, f->severity, f->rule, f->device, h.n_findings,
          h.n_findings ? h.findings[0].what : "none");
  if (x && f->word && !strstr(x->what, f->word)) wrong("%s: '%s' is not in: %s", f->name, f->word, x->what);
  if (x && f->line && x->from.line != f->line) wrong("%s: evidence in line %d, not %d", f->name, x->from.line, f->line);
  for (int i = 0; i < h.n_findings;
       i++) { /* no other fault, but its count of GPUs or NICs where a whole machine was named */
    const mal_finding *o = &h.findings[i];
    bool counted = f->on && (o->rule == MAL_RULE_GPU_COUNT || o->rule == MAL_RULE_NIC_COUNT);
    bool same = f->rule && strcmp(mal_rule_name[o->rule], f->rule) == 0;
    if (o->severity > MAL_SEV_NOTE && !same && !counted)
      wrong("%s: also %s of '%s': %s", f->name, mal_rule_name[o->rule], o->device, o->what);
  }
  mal_arena_free(&a);
}

static void test_each_fault(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) check_one(&faults[i]);
  assert_int_equal(failures, 0);
}

/* A fault costs what the model says: with a pair on PCIe the all-reduce falls to the rate of PCIe, and the step is longer. */
static void test_cost(void **state) {
  mal_arena a;
  mal_health h;
  mal_error e;
  (void)state;
  mal_arena_init(&a);
  mal_health_init(&h, &a);
  read_text(&h, "topo", faults[1].text);
  assert_ok(mal_health_judge(&h, "4xh100-sxm", &e), e);
  const mal_finding *x = wanted(&h, &faults[1]);
  assert_non_null(x);
  assert_true(x->costed);
  assert_true(x->busbw[0] > 200e9 && x->busbw[1] < 63e9); /* NVLink; PCIe 5 x16 has 63 GB/s */
  assert_true(x->step_s[1] > 1.1 * x->step_s[0]);
  mal_arena_free(&a);
}

#define RANKS2(x, y)                                                                                                   \
  "#  Rank  0 Group  0 Pid  1 on " x " device  0 [0x07] NVIDIA H100 80GB HBM3\n#  Rank  1 Group  0 Pid  2 on " y       \
  " device  0 [0x07] NVIDIA H100 80GB HBM3\n"
#define RUN(x, y, time, bw)                                                                                            \
  RANKS2(x, y)                                                                                                         \
  "  1073741824     268435456     float     sum      -1   " time "   " bw "   " bw "      0\n# all_reduce_perf\n"

/* As in NVIDIA/nccl-tests issue 106: pairs of nodes, all slow that have one of them. */
static void test_sick_node_of_pairs(void **state) {
  mal_arena a;
  mal_health h;
  mal_error e;
  (void)state;
  mal_arena_init(&a);
  mal_health_init(&h, &a);
  read_text(&h, "1", RUN("n641", "n642", "24400.0", "44.01"));
  read_text(&h, "2", RUN("n641", "n644", "48800.0", "22.00"));
  read_text(&h, "3", RUN("n642", "n644", "48700.0", "22.05"));
  read_text(&h, "4", RUN("n643", "n642", "24500.0", "43.83"));
  assert_ok(mal_health_judge(&h, NULL, &e), e);
  int sick = 0;
  for (int i = 0; i < h.n_findings; i++)
    if (h.findings[i].rule == MAL_RULE_SICK_NODE) {
      sick++;
      assert_string_equal(h.findings[i].device, "n644");
    }
  assert_int_equal(sick, 1);
  mal_arena_free(&a);
}

/* Pairs that share no node: which of the two is sick cannot be said, and is not. */
static void test_disjoint_pairs(void **state) {
  mal_arena a;
  mal_health h;
  mal_error e;
  (void)state;
  mal_arena_init(&a);
  mal_health_init(&h, &a);
  read_text(&h, "1", RUN("n1", "n2", "24400.0", "44.01"));
  read_text(&h, "2", RUN("n3", "n4", "24500.0", "43.83"));
  read_text(&h, "3", RUN("n5", "n6", "48800.0", "22.00"));
  assert_ok(mal_health_judge(&h, NULL, &e), e);
  int sick = 0;
  for (int i = 0; i < h.n_findings; i++)
    if (h.findings[i].rule == MAL_RULE_SICK_NODE) {
      sick++;
      assert_string_equal(h.findings[i].device, "n5 or n6");
    }
  assert_int_equal(sick, 1);
  mal_arena_free(&a);
}

#define IB(n)                                                                                                          \
  "CA 'mlx5_" #n "'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
#define IB_CARD(bus)  CARD(bus, CX7, FULL)
#define ETHERNET(bus) CARD(bus, "Ethernet controller: Mellanox Technologies MT2892 Family [ConnectX-6 Dx]", FULL)

static int count_rails(mal_health *h) {
  mal_part *rails[64];
  return mal_topology_rails(&h->topology, rails, 64);
}

/* NICs that one listing names and another gives the addresses of are counted once, whether or not there are as many in both. */
static void test_nics_of_two_listings(void **state) {
  static const struct {
    const char *named, *placed;
    int rails;
    bool matched;
  } nodes[] = {
      {IB(0) IB(1), IB_CARD("1a:00.0") IB_CARD("3c:00.0"), 2, true},
      {IB(0) IB(1), IB_CARD("1a:00.0") IB_CARD("3c:00.0") ETHERNET("5d:00.0"), 3,
       true}, /* by the kind of link; one more by address only */
      {IB(0) IB(1) IB(2), IB_CARD("1a:00.0") IB_CARD("3c:00.0"), 3, false},
      {IB(0) IB(1), IB_CARD("1a:00.0") IB_CARD("3c:00.0") IB_CARD("5d:00.0"), 3, false},
  };
  (void)state;
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
    mal_arena a;
    mal_health h;
    mal_error e;
    mal_arena_init(&a);
    mal_health_init(&h, &a);
    read_text(&h, "ibstat", nodes[i].named);
    read_text(&h, "lspci", nodes[i].placed);
    assert_ok(mal_health_judge(&h, NULL, &e), e);
    int placed = 0, named = 0;
    for (int k = 0; k < h.topology.n_devices; k++) {
      const mal_part *d = &h.topology.devices[k];
      named += mal_nic_computes(d) && d->name && !d->again;
      placed += mal_nic_computes(d) && d->name && d->bus >= 0;
    }
    if (nodes[i].matched ? placed != named : placed != 0) fail_msg("%zu: %d of %d have an address", i, placed, named);
    if (count_rails(&h) != nodes[i].rails) fail_msg("%zu: %d rails", i, count_rails(&h));
    mal_arena_free(&a);
  }
}

/* Files that contradict each other: said, with both places. */
static void test_conflicts(void **state) {
  mal_arena a;
  mal_health h;
  mal_error e;
  (void)state;
  mal_arena_init(&a);
  mal_health_init(&h, &a);
  read_text(&h, "a.txt", "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tNV4\t0-31\t0\nGPU1\tNV4\tX\t0-31\t0\n");
  read_text(&h, "b.txt", "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tSYS\t0-31\t0\nGPU1\tSYS\tX\t32-63\t1\n");
  assert_ok(mal_health_judge(&h, NULL, &e), e);
  int found = 0;
  for (int i = 0; i < h.n_findings; i++) {
    const mal_finding *f = &h.findings[i];
    if (f->rule != MAL_RULE_LISTINGS) continue;
    found++;
    assert_string_equal(f->from.file, "b.txt");
    assert_non_null(strstr(f->what, "a.txt:"));
    assert_true(strstr(f->what, "GPU1: numa is 1, but 0") || strstr(f->what, "is SYS, but NV4"));
  }
  assert_int_equal(found, 2);
  mal_arena_free(&a);
}

/* Every rule has a node above that breaks it, or a test of its own. */
static void test_every_rule_is_tried(void **state) {
  static const mal_rule apart[] = {MAL_RULE_BENCHMARK_SHAPE, MAL_RULE_BENCHMARK_DATA, MAL_RULE_SICK_NODE,
                                   MAL_RULE_LISTINGS};
  (void)state;
  for (int r = 0; r < MAL_RULES; r++) {
    bool tried = false;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
      tried = tried || (faults[i].rule && strcmp(faults[i].rule, mal_rule_name[r]) == 0);
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) tried = tried || apart[i] == (mal_rule)r;
    if (!tried) fail_msg("no node breaks %s", mal_rule_name[r]);
  }
}

#define LINE(size, count, us, alg, bus) "   " size "   " count "   float   sum   -1   " us "   " alg "   " bus "   0\n"
/* As in NVIDIA/nccl issue 1453: 24 ranks, from 29.5 to 5.3 GB/s above 64 MiB. */
static void test_collapse_and_ranks(void **state) {
  mal_arena a;
  mal_health h;
  mal_error e;
  (void)state;
  mal_arena_init(&a);
  mal_health_init(&h, &a);
  read_text(
      &h, "[log]",
      "[1,0]<stdout>:# nThread 1 all_reduce_perf\n[1,0]<stdout>:" LINE(
          "16777216", "4194304", "1200.0", "13.98",
          "26.80") "[1,0]<stdout>:" LINE("33554432", "8388608", "2250.0", "14.91",
                                         "28.58") "[1,0]<stdout>:" LINE("67108864", "16777216", "4360.0", "15.39",
                                                                        "29.50") "[1,0]<stdout>:" LINE("134217728",
                                                                                                       "33554432",
                                                                                                       "48500.0",
                                                                                                       "2.77", "5.30"));
  assert_int_equal(h.n_benches, 1);
  assert_int_equal(h.benches[0].ranks, 24);
  assert_ok(mal_health_judge(&h, NULL, &e), e);
  bool found = false;
  for (int i = 0; i < h.n_findings; i++)
    found = found || (h.findings[i].rule == MAL_RULE_BENCHMARK_SHAPE && strstr(h.findings[i].what, "collapses") &&
                      h.findings[i].from.line == 5);
  assert_true(found);
  mal_arena_free(&a);
}

static void test_wrong_results(void **state) {
  mal_arena a;
  mal_health h;
  mal_error e;
  (void)state;
  mal_arena_init(&a);
  mal_health_init(&h, &a);
  read_text(&h, "all_reduce.log",
            "#  algbw busbw #wrong\n  1073741824  268435456  float  sum  -1  5000.0  214.75  375.81  17\n");
  assert_ok(mal_health_judge(&h, NULL, &e), e);
  assert_int_equal(h.n_findings, 1);
  assert_int_equal(h.findings[0].rule, MAL_RULE_BENCHMARK_DATA);
  assert_int_equal(h.findings[0].severity, MAL_SEV_ERROR);
  mal_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_fault),
      cmocka_unit_test(test_every_rule_is_tried),
      cmocka_unit_test(test_cost),
      cmocka_unit_test(test_sick_node_of_pairs),
      cmocka_unit_test(test_collapse_and_ranks),
      cmocka_unit_test(test_wrong_results),
      cmocka_unit_test(test_disjoint_pairs),
      cmocka_unit_test(test_nics_of_two_listings),
      cmocka_unit_test(test_conflicts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
