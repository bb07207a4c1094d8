# Ten machines of one rack, their pool, the secret of their BMCs, and a plan that inspects them.

terraform {
  required_version = ">= 1.11"
  required_providers {
    holdfast = { source = "holdfast-metal/holdfast" }
  }
}

provider "holdfast" {} # connects as the command line does

variable "bmc_password" {
  type      = string
  ephemeral = true # it is in neither the plan nor the state
}

locals {
  machines = { for n in range(1, 11) : format("fra1-r7-%02d", n) => n }
}

resource "holdfast_secret" "bmc" {
  name              = "bmc/fra1-r7"
  type              = "bmc"
  values_wo         = { username = "holdfast", password = var.bmc_password }
  values_wo_version = 1 # increase it to store a new password
}

resource "holdfast_pool" "gpu" {
  pool_id  = "gpu"
  gpu_type = "H100"
  labels   = { site = "fra1" }
}

resource "holdfast_machine" "r7" {
  for_each            = local.machines
  machine_id          = each.key
  pool                = holdfast_pool.gpu.pool_id
  bmc_endpoint        = "10.20.7.${each.value}"
  bmc_credentials_ref = holdfast_secret.bmc.name
  mac_addresses       = [format("aa:bb:cc:07:00:%02x", each.value)]
  location            = "fra1"
  rack                = "r7"
  labels              = { env = "prod" }
}

resource "holdfast_plan" "inspect" {
  document = file("${path.module}/inspect.yaml")
}

data "holdfast_machines" "attention" {
  filter     = "pool = gpu AND needs_attention = true"
  depends_on = [holdfast_machine.r7]
}

output "needs_attention" {
  value = data.holdfast_machines.attention.machines[*].machine_id
}
