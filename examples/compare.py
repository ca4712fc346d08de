"""compare.py MODEL MACHINE...: what a step costs in time and energy on each machine, from `malha plan --json`."""
import json
import subprocess
import sys

LAYOUT = "zero=3,micro-batch=1,recompute=full"


def plan(model, machine):
    command = ["malha", "plan", model, "--on", machine, "--layout", LAYOUT, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode > 1:  # 0 it fits, 1 it does not; both have an answer
        sys.exit(done.stderr)
    return json.loads(done.stdout)["layouts"][0]


for machine in sys.argv[2:]:
    best = plan(sys.argv[1], machine)
    interval, memory = best["interval"], best["memory_bytes"]
    print(
        f"{machine}: {best['tokens_per_s']:,.0f} tokens/s"
        f" ({interval['tokens_per_s_low']:,.0f} to {interval['tokens_per_s_high']:,.0f}),"
        f" {best['kwh_per_mtoken']:.3f} kWh a million tokens,"
        f" {memory['total'] / 2**30:.1f} of {memory['limit'] / 2**30:.1f} GiB"
        f" (fits with {best['fit_probability']:.0%})"
    )
    slowest = max(best["time_s"], key=best["time_s"].get)
    print(f"  most of a step: {slowest}, {best['time_s'][slowest] / best['step_s']:.0%}")
