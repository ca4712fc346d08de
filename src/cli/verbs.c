/* The verbs and what --help, the man pages and the overview say about them. */
#include "cli/cli.h"
#include "design/design.h"
#include "layout/layout.h"
#include <string.h>

static const mal_section plan_sections[] = {
    {N_("Options"), mal_input_options, &mal_input_option_count, false},
    {N_("The search, without --layout"), mal_search_options_table, &mal_search_option_count, false},
    {N_("Questions the other way round"), mal_inverse_options, &mal_inverse_option_count, false},
    {N_("Files"), mal_plan_options, &mal_plan_option_count, false},
    {N_("The job"), mal_job_options, &mal_job_option_count, false},
    {N_("Keys of --layout, also options of their own"), mal_layout_options, &mal_layout_option_count, true},
    {0},
};
static const mal_section lower_sections[] = {
    {N_("Options"), mal_input_options, &mal_input_option_count, false},
    {N_("Files"), mal_lower_options, &mal_lower_option_count, false},
    {N_("The job"), mal_job_options, &mal_job_option_count, false},
    {N_("Keys of --layout, also options of their own"), mal_layout_options, &mal_layout_option_count, true},
    {0},
};
static const mal_section train_sections[] = {
    {N_("The run"), mal_train_options, &mal_train_option_count, false},
    {N_("Options"), mal_input_options, &mal_input_option_count, false},
    {N_("The job"), mal_job_options, &mal_job_option_count, false},
    {N_("Keys of --layout, also options of their own"), mal_layout_options, &mal_layout_option_count, true},
    {0},
};
static const mal_section simulate_sections[] = {
    {N_("Options"), mal_input_options, &mal_input_option_count, false},
    {N_("What is played"), mal_simulate_options_table, &mal_simulate_option_count, false},
    {N_("The job"), mal_job_options, &mal_job_option_count, false},
    {N_("Keys of --layout, also options of their own"), mal_layout_options, &mal_layout_option_count, true},
    {0},
};
static const mal_section export_sections[] = {
    {N_("Files"), mal_export_options, &mal_export_option_count, false},
    {N_("Options"), mal_input_options, &mal_input_option_count, false},
    {N_("The job"), mal_job_options, &mal_job_option_count, false},
    {N_("Keys of --layout, also options of their own"), mal_layout_options, &mal_layout_option_count, true},
    {0},
};
static const mal_section import_sections[] = {
    {N_("Options"), mal_import_options, &mal_import_option_count, false},
    {0},
};
static const mal_section validate_sections[] = {
    {N_("Options"), mal_validate_options, &mal_validate_option_count, false},
    {0},
};
static const mal_section data_sections[] = {
    {N_("Options"), mal_data_options, &mal_data_option_count, false},
    {0},
};
static const mal_section weights_sections[] = {
    {N_("Options"), mal_weights_options, &mal_weights_option_count, false},
    {0},
};
static const mal_section catalog_sections[] = {
    {N_("Options"), mal_catalog_options, &mal_catalog_option_count, false},
    {0},
};

static const mal_section design_sections[] = {
    {N_("The cluster"), mal_design_ask_options, &mal_design_ask_option_count, false},
    {N_("Files"), mal_design_options, &mal_design_option_count, false},
    {N_("The training target, after MODEL"), mal_job_options, &mal_job_option_count, false},
    {0},
};
static const mal_section check_sections[] = {
    {N_("Options"), mal_check_options, &mal_check_option_count, false},
    {0},
};
static const mal_section probe_sections[] = {
    {N_("Options"), mal_probe_options, &mal_probe_option_count, false},
    {0},
};

static const char *const plan_examples[] = {
    N_("The best layout of Llama-3-70B on four H100 servers"),
    "malha plan llama-3-70b --on 4x8xh100-sxm",
    N_("The same with tp pinned, and where a layout of your own loses"),
    "malha plan llama-3-70b --on 4x8xh100-sxm --fix tp=8 --against tp=8,pp=4,micro-batch=1",
    N_("Llama-3-70B on four H100 servers, and how long 15T tokens would take"),
    "malha plan llama-3-70b --on 4x8xh100-sxm --layout tp=8,pp=4,micro-batch=1 --global-batch 128 --tokens 15T",
    N_("The fewest H100 servers that train it on 1T tokens in 30 days"),
    "malha plan llama-3-70b --on 8xh100-sxm --nodes auto --tokens 1T --deadline 30d",
    N_("The longest sequence that one server holds"),
    "malha plan llama-3-8b --on 8xh100-sxm --max seq",
    N_("The same question to two machines, side by side"),
    "malha plan llama-3-8b --on 8xa100-80-sxm,8xh100-sxm --layout zero=3,micro-batch=1,recompute=full",
    N_("Your own model, written to a file and asked again with 8-bit Adam"),
    "malha plan ./config.json --on 8xh100-sxm --layout tp=8,micro-batch=1 -o plan.json\n"
    "malha plan --from plan.json --optimizer adamw-8bit",
    N_("LoRA fine-tuning"),
    "malha plan llama-3-70b --on 8xa100-80-sxm --layout zero=3,micro-batch=1,recompute=full --train lora",
    N_("Only the numbers"),
    "malha plan llama-3-8b --on 8xh100-sxm --layout tp=2,zero=1,micro-batch=1 --json | jq .layouts[0].tokens_per_s",
    NULL,
};
static const char *const export_examples[] = {
    N_("A plan as a script that starts Megatron-LM"),
    "malha export --from plan.json --for megatron -o run",
    N_("The same for Slurm, with NCCL's environment and a test of every group"),
    "malha export --from plan.json --for megatron,slurm,nccl-tests -o run",
    N_("Without a plan file: the script on standard output"),
    "malha export llama-3-8b --on 8xh100-sxm --layout tp=2,micro-batch=1 --for megatron",
    NULL,
};
static const char *const import_examples[] = {
    N_("What the settings of a script cost, and what would be better"),
    "malha import train.sh --on 8xh100-sxm",
    N_("A variable that the script leaves to its caller, and both plans as files"),
    "malha import train.sh DATA_PATH=/data/text --on 8xh100-sxm -o now.json --better best.json",
    NULL,
};
static const char *const lower_examples[] = {
    N_("Blocks, schedule and memory regions of a step"),
    "malha lower llama-3-8b --on 8xh100-sxm --layout tp=2,pp=2,micro-batch=1 --global-batch 16",
    N_("The same as JSON, from a plan"),
    "malha lower --from plan.json -o step.json",
    NULL,
};
static const char *const train_examples[] = {
    N_("A small Llama on the bytes of a text, on every core"),
    "malha train layers=4,hidden=256,heads=4,vocab=256,gated=1 --data book.txt --seq 256 --global-batch 16 --steps 200",
    N_("Eight ranks on this computer, split three ways; the last step as a trace"),
    "malha train layers=4,hidden=256,heads=4,vocab=256,gated=1 --data book.txt --seq 256 --global-batch 16 \\\n"
    "  --layout tp=2,pp=2,dp=2,micro-batch=2 --steps 50 --trace step.json",
    N_("GPT-2 from scratch on token files, evaluated every 500 steps"),
    "malha train gpt2 --data train.bin --eval val.bin --eval-every 500 --seq 1024 --global-batch 32 --steps 5000",
    N_("A model of Hugging Face trained further, and written as one"),
    "malha train --init ./SmolLM2-135M --data train.bin --seq 512 --global-batch 8 --steps 200 --lr 2e-5 \\\n"
    "  --save-hf ./tuned --hf-dtype bf16",
    NULL,
};
static const char *const simulate_examples[] = {
    N_("One step of every rank, against the plan"),
    "malha simulate llama-3-70b --on 4x8xh100-sxm --layout tp=8,pp=4,micro-batch=1 --global-batch 128",
    N_("What a slow GPU and a degraded NIC cost, and who waits for whom"),
    "malha simulate --from plan.json --fault slow:rank=5,by=20% --fault nic:rank=9,by=50%",
    N_("A trace of four ranks, and a picture"),
    "malha simulate --from plan.json --trace step.json --ranks 0-3 --svg step.svg",
    N_("Two months with failures: goodput and the best checkpoint interval"),
    "malha simulate llama-3.1-405b --on 2048x8xh100-sxm --layout tp=8,pp=16,micro-batch=1 --global-batch 2048 --days "
    "54",
    NULL,
};
static const char *const validate_examples[] = {
    N_("Against published runs, error by family of rows"),
    "malha validate runs.csv --by family",
    N_("And runs that ran out of memory"),
    "malha validate runs.csv --oom oom.csv",
    N_("One run: what was assumed, and its time by cause"),
    "malha validate runs.csv --explain R0001",
    NULL,
};
static const char *const data_examples[] = {
    N_("Text into tokens, a byte each"),
    "malha data chapter1.txt chapter2.txt -o tokens.bin",
    N_("What is in token files of Megatron-LM, nanoGPT or llm.c"),
    "malha data corpus_text_document.idx train.bin",
    N_("From one format to another"),
    "malha data corpus_text_document.idx --to llm.c -o train.bin",
    NULL,
};
static const char *const weights_examples[] = {
    N_("What is in a Hugging Face folder, and is it what its config.json says?"),
    "malha weights ./Llama-3.2-1B",
    N_("The newest checkpoint of a training run as a folder that transformers loads"),
    "malha weights run --tokenizer ./Llama-3.2-1B -o ./my-llama --dtype bf16",
    N_("The same numbers in files of at most 2 GB"),
    "malha weights ./Llama-3.2-1B -o ./in-parts --shard-size 2GB",
    NULL,
};
static const char *const models_examples[] = {
    N_("What there is"),
    "malha models",
    N_("One model: shape, weights, parameter count"),
    "malha models llama-3-70b",
    N_("A config.json of your own"),
    "malha models ./config.json",
    NULL,
};
static const char *const machines_examples[] = {
    N_("What there is"),
    "malha machines",
    N_("One GPU, each value with its source"),
    "malha machines h100-80-sxm",
    N_("A whole machine, as plan sees it"),
    "malha machines 16x8xh100-sxm",
    NULL,
};

static const char *const design_examples[] = {
    N_("The fewest DGX H100 that train Llama-3-70B on 15T tokens in 60 days"),
    "malha design llama-3-70b --tokens 15T --deadline 60d --node dgx-h100",
    N_("1,016 GPUs as the reference architecture builds them, with every cable"),
    "malha design --gpus 1016 --node dgx-h100 --ufm --cabling cables.csv",
    N_("One server in an ordinary rack"),
    "malha design --single-node --node dgx-h100 --site ordinary-rack",
    N_("Sixteen nodes, and what growing to 64 re-cables"),
    "malha design --nodes 16 --node dgx-h100 --whole-units --grow 64",
    N_("Is it cabled as designed?"),
    "malha design --nodes 16 --node dgx-h100 -o cluster.yaml\n"
    "malha design check --expected cluster.yaml --found ibnetdiscover.txt",
    NULL,
};
static const char *const check_examples[] = {
    N_("This machine, its environment too"),
    "malha check --env",
    N_("A slow server, from pasted listings, a run of nccl-tests, the kernel log"),
    "malha check topo.txt lspci.txt allreduce.log dmesg.txt",
    N_("Logs of a run on four servers that should be DGX H100"),
    "malha check --on 4xdgx-h100 nccl-tests.log nccl-debug.log",
    N_("Under load for a minute, for a monitoring system"),
    "malha check --for 60s --prometheus /var/lib/node_exporter/malha.prom",
    NULL,
};
static const char *const probe_examples[] = {
    N_("This machine"),
    "malha probe",
    N_("A server elsewhere, from what its owner pasted: a machine file and a drawing"),
    "malha probe --from topo.txt smi.xml ibstat.txt -o node.yaml --svg node.svg\n"
    "malha plan llama-3-8b --on ./node.yaml --layout tp=2,zero=1,micro-batch=1",
    N_("Which links tensor and pipeline groups would ride on"),
    "malha probe --from topo.txt --layout tp=4,pp=2",
    NULL,
};

const mal_verb mal_verbs[] = {
    {"plan", mal_cmd_plan, N_("Does it fit, how fast is it, what does it cost? Which machine is better?"),
     N_("memory, time, energy and cost of training a model on a machine"),
     N_("MODEL --on MACHINE[,MACHINE...] [--layout KEYS] [OPTION...]"),
     N_("Finds how to split MODEL over MACHINE: without --layout the best of all layouts, proven, with what the next "
        "ones "
        "lose and where. With --layout answers whether that one fits, and how long a step takes: memory of the fullest "
        "GPU "
        "and time of a step, each by cause, then speed, energy and cost.\n\n"
        "MODEL is a name (malha models), the path of a Hugging Face config.json or its folder, or a description such "
        "as "
        "layers=96,hidden=12288,heads=96,ffn=49152,vocab=51200.\n\n"
        "A layout that does not fit gets the smallest changes that would make it fit, each with its speed. Nothing is "
        "switched by itself. Several machines are shown side by side.\n\n"
        "Exit status: 0 it fits, in time and in budget (of several machines, one does); 1 it does not; 2 bad usage or "
        "input; 3 a fault."),
     plan_sections, plan_examples},
    {"simulate", mal_cmd_simulate, N_("What really happens in a step, and when something breaks?"),
     N_("every rank of a step played on the machine's links; faults; weeks with failures"),
     N_("MODEL --on MACHINE --layout KEYS [OPTION...]"),
     N_("Plays one step event by event: the schedule of every stage, messages between stages, collectives as flows "
        "that share "
        "links. Shows where the time goes, how full the links are, and how far the plan is off. With --fault it shows "
        "what each "
        "fault costs and who waits for whom; with --days the share of weeks that trains.\n\n"
        "--from takes a plan.json, or a program that malha lower wrote (-o step.json): its plan, and the tables of its "
        "stages, "
        "which may have been edited.\n\n"
        "Interrupted (Ctrl-C), it reports what was played so far.\n\n"
        "Exit status: 0 the step ends; 1 it does not (a rank died), or was interrupted; 2 bad usage or input, also a "
        "program that "
        "waits in a circle; 3 a fault."),
     simulate_sections, simulate_examples},
    {"train", mal_cmd_train, N_("Does it run as planned?"), N_("train a model on this computer by the step program"),
     N_("MODEL --data FILE[,FILE...] [OPTION...]"),
     N_("Runs the step program that plan prices, with real numbers, on this computer: ranks are threads, split as "
        "--layout says. "
        "Without --layout every split of the ranks is priced and the fastest that fits is taken. In the end memory, "
        "bytes sent, FLOPs and time of a step stand beside what was planned.\n\n"
        "MODEL is what plan takes: a name, the path of a config.json, or a description. Weights begin at random, from "
        "--seed, or as a Hugging Face folder has them (--init DIR). Precision is fp32, the optimizer AdamW. What the "
        "engine cannot run is refused by name.\n\n"
        "Exit status: 0 done; 1 the loss is not a number any more, or nothing fits; 2 bad usage or input; 3 a fault."),
     train_sections, train_examples},
    {"lower", mal_cmd_lower, N_("What does each GPU do in a step?"),
     N_("the step program: blocks, schedule, memory regions"), N_("MODEL --on MACHINE --layout KEYS [OPTION...]"),
     N_("Shows the program that plan prices: for every class of rank its blocks with their instructions, the schedule "
        "of "
        "its stage, and the memory regions with their sizes.\n\n"
        "Exit status: 0 done; 2 bad usage or input; 3 a fault."),
     lower_sections, lower_examples},
    {"validate", mal_cmd_validate, N_("How far can I trust the numbers?"),
     N_("estimates against published, measured runs"), N_("RUNS.csv [OPTION...]"),
     N_("Predicts every measured run of a table (model, machine, layout, batch and measured speed, one run a row) and "
        "shows "
        "how far the predictions are off, by family of runs; with --oom also how many runs that ran out of memory were "
        "said "
        "not to fit. docs/validate.md lists the columns; --defaults says what takes the place of blanks.\n\n"
        "Exit status: 0 done; 2 bad usage or input; 3 a fault."),
     validate_sections, validate_examples},
    {"check", mal_cmd_check, N_("My training is slow: is the node well?"),
     N_("judge a node: find what is sick, its cost, and what to do"), N_("[FILE...] [OPTION...]"),
     N_("Judges the live machine, or what was pasted of one: the listings that malha probe reads; logs of nccl-tests, "
        "NCCL_DEBUG=INFO, ib_write_bw, fio, nvbandwidth and gdsio; kernel logs with XIDs, the Fabric Manager's log, "
        "environments, and tables of results. Each file is recognised by its content; several are judged together.\n\n"
        "A finding has its evidence (file and line), the likely cause, what it costs by the model (all-reduce "
        "bandwidth, a step of "
        "a reference job) and what to do. Benchmarks are compared with what the machine should give.\n\n"
        "Exit status: 0 well; 1 an error was found; 2 bad usage or input; 3 a fault."),
     check_sections, check_examples},
    {"probe", mal_cmd_probe, N_("What is this machine made of, and where do ranks go on it?"),
     N_("find out what a node is made of"), N_("[--from FILE...] [OPTION...]"),
     N_("Finds GPUs, NVLinks and NVSwitches, the PCIe tree, CPUs and NUMA nodes, NICs, drives and memory: of the live "
        "machine, or "
        "with --from of one elsewhere, from listings that people paste. Each file is recognised by its content and "
        "several merge "
        "into one node: nvidia-smi topo -m, topo -p2p, -q -x and nvlink --status, NCCL's topology XML, lstopo, lspci, "
        "ibstat, "
        "/sys/class/infiniband.\n\n"
        "Shows the node as a tree, and for each rank its GPU, NUMA node, cores and NIC by PCIe distance. What the "
        "files do not "
        "say is listed, never guessed.\n\n"
        "Exit status: 0 done; 2 bad usage or input; 3 a fault."),
     probe_sections, probe_examples},
    {"design", mal_cmd_design, N_("What must I buy, cable, power and cool?"),
     N_("a cluster: network, storage, racks, power, cooling, bill of materials"),
     N_("[MODEL|check] --node NAME [OPTION...]"),
     N_("Designs the cluster around so many nodes, or around the fewest that reach a training target: switches and "
        "every cable, storage, racks and floor, power with its "
        "failures, cooling, and the bill of materials with the rule of each count.\n\n"
        "--site names racks, power and room: a name of catalog/sites or a YAML file. What contradicts is said: an "
        "error "
        "means that the design cannot be built as asked.\n\n"
        "design check compares the cables of a design with what the network says of itself: missing, crossed, slow and "
        "extra ones, by leaf and rail.\n\n"
        "Exit status: 0 it can be built; 1 it cannot; 2 bad usage or input; 3 a fault."),
     design_sections, design_examples},
    {"data", mal_cmd_data, N_("What do I train on?"), N_("make, convert and look at token files"),
     N_("FILE... [-o FILE] [OPTION...]"),
     N_("Reads token files of Megatron-LM (.bin with .idx), nanoGPT (.bin of 16-bit ids) and llm.c (.bin with a "
        "header), "
        "and any other file as bytes; says how many tokens are in each and the largest id. With -o writes all of them, "
        "one after the other, as one token file.\n\n"
        "Every id is read: what is cut, negative or not below --vocabulary is named with file and byte.\n\n"
        "Exit status: 0 done; 2 bad usage or input; 3 a fault."),
     data_sections, data_examples},
    {"export", mal_cmd_export, N_("Which files run it?"), N_("a plan as the files that run it elsewhere"),
     N_("[MODEL] --for TARGET [OPTION...]"),
     N_("Writes the files that make others do what the plan says: scripts and settings of frameworks. The numbers of "
        "the plan are those of its profile; the files say what they were priced for.\n\n"
        "Targets: megatron (Megatron-LM with torchrun), deepspeed (JSON), accelerate (YAML for FSDP or DeepSpeed), "
        "torchtitan "
        "(TOML), torchrun (a program of your own), slurm (a batch script), nccl (environment), nccl-tests (every group "
        "of "
        "the plan, with the busbw to expect), mpi (host and rank file).\n\n"
        "What a target cannot express of the plan is said, in the answer and in the file. Settings that malha import "
        "kept with the plan are there again. Names and paths are quoted; nothing that a plan holds is run.\n\n"
        "Exit status: 0 done; 1 written, but something of the plan is missing; 2 bad usage or input; 3 a fault."),
     export_sections, export_examples},
    {"import", mal_cmd_import, N_("What do my present settings cost, and what is better?"),
     N_("settings that are in use, as a plan, and a better one"),
     N_("FILE... [NAME=VALUE...] --on MACHINE [OPTION...]"),
     N_("Reads settings that a team has: a shell script or command line of Megatron-LM with its variables and arrays, "
        "#SBATCH lines, exported variables; files of DeepSpeed (JSON), Accelerate (YAML) and torchtitan (TOML), "
        "several of "
        "them together. Nothing is run: what only a running shell knows stays open and is named; NAME=VALUE sets "
        "it.\n\n"
        "Says what the settings cost, what is wrong with the environment, and what is better: from the settings as "
        "they are to the best layout of all, change by change, each with its gain.\n\n"
        "The model is looked for among the built-in ones by its widths. Every option that no word of the plan stands "
        "for is kept in the plan, and malha export writes it again.\n\n"
        "Exit status: 0 the settings fit; 1 they do not; 2 bad usage or input; 3 a fault."),
     import_sections, import_examples},
    {"weights", mal_cmd_weights, N_("What is in these weights, and how do others load mine?"),
     N_("look at model files, and write them as Hugging Face lays them out"), N_("FOLDER [-o DIR] [OPTION...]"),
     N_("Reads the weights of a Hugging Face folder (model.safetensors, one file or several with an index, beside "
        "config.json) or the newest whole checkpoint of malha train --out, and holds every tensor to the model: name, "
        "shape, type. With -o writes them as such a folder, which transformers loads: names and transposes as there, "
        "fp32, bf16 or fp16.\n\n"
        "DIR must not exist or be empty; it is written beside and renamed when it is whole.\n\n"
        "Exit status: 0 done; 1 no checkpoint is whole; 2 bad usage or input; 3 a fault."),
     weights_sections, weights_examples},
    {"models", mal_cmd_models, N_("Which models does it know, and what is in one?"), N_("list the models, or show one"),
     N_("[MODEL] [OPTION...]"),
     N_("Without MODEL lists the built-in models. With MODEL (a name, the path of a config.json, or a description) "
        "shows "
        "its shape, its list of weight tensors and its parameter count, beside the published count and where it was "
        "read.\n\n"
        "Exit status: 0 done; 2 bad usage or input; 3 a fault."),
     catalog_sections, models_examples},
    {"machines", mal_cmd_machines, N_("Which machines does it know, and who says so?"),
     N_("list the machines, or show one"), N_("[MACHINE] [OPTION...]"),
     N_("Without MACHINE lists GPUs and nodes. With the name of a GPU, a node or a machine shows every value with "
        "where "
        "it was read; what nobody could verify is marked UNVERIFIED.\n\n"
        "Exit status: 0 done; 2 bad usage or input; 3 a fault."),
     catalog_sections, machines_examples},
};
const int mal_verb_count = sizeof mal_verbs / sizeof *mal_verbs;

const mal_verb *mal_verb_named(const char *name) {
  for (int i = 0; i < mal_verb_count; i++)
    if (strcmp(mal_verbs[i].name, name) == 0) return &mal_verbs[i];
  return NULL;
}
