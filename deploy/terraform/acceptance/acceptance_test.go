// Package acceptance tests the provider with Terraform against a peer (`make e2e-terraform`). It
// does nothing unless E2E_TERRAFORM is set.
package acceptance

import (
	"os"
	"strings"
	"testing"
)

const fleet = `
resource "holdfast_pool" "gpu" {
  pool_id  = "gpu"
  gpu_type = "H100"
  labels   = { site = "fra1" }
}

resource "holdfast_machine" "m" {
  for_each      = toset(["m-1", "m-2", "m-3"])
  machine_id    = each.key
  pool          = holdfast_pool.gpu.pool_id
  provider_name = "fake"
  bmc_endpoint  = "10.0.0.${substr(each.key, 2, 1)}"
  mac_addresses = ["AA-BB-CC-00-00-0${substr(each.key, 2, 1)}"]
  rack          = "r7"
  labels        = { env = "prod" }
}

resource "holdfast_plan" "check" {
  document = <<-EOT
    plan_id: plan/check
    display_name: Check
    steps:
    - name: look
      inspect: {}
  EOT
}
`

const sources = `
data "holdfast_machines" "prod" {
  filter     = "rack = r7"
  labels     = { env = "prod" }
  depends_on = [holdfast_machine.m]
}
data "holdfast_machine" "one" {
  machine_id = "m-1"
  depends_on = [holdfast_machine.m]
}
data "holdfast_cluster" "here" {}
output "ids" { value = join(",", data.holdfast_machines.prod.machines[*].machine_id) }
output "phase" { value = data.holdfast_machine.one.phase }
output "peers" { value = length(data.holdfast_cluster.here.peers) }
`

func TestTerraform(t *testing.T) {
	if os.Getenv("E2E_TERRAFORM") == "" {
		t.Skip("set E2E_TERRAFORM=1 (make e2e-terraform): it needs terraform")
	}
	l := newLab(t)
	for _, scene := range []struct {
		name string
		play func(*lab)
	}{
		{"example", example}, {"wrong values", wrongValues}, {"create", create}, {"drift", drift},
		{"change", change}, {"plan", plans},
		{"import", imports}, {"refusals", refusals}, {"other kinds", others}, {"destroy", destroy},
	} {
		t.Run(scene.name, func(t *testing.T) {
			one := *l
			one.T = t
			scene.play(&one)
		})
	}
}

// example applies the example of the documentation, through a context instead of the environment.
func example(l *lab) {
	for _, file := range []string{"main.tf", "inspect.yaml"} {
		text, err := os.ReadFile("../examples/fleet/" + file)
		if err != nil {
			l.Fatal(err)
		}
		l.write(file, strings.Replace(string(text), `provider "holdfast" {}`, `provider "holdfast" {
  context = "lab"
}`, 1))
	}
	l.holdfast("context", "set", "lab", "--addr", l.addr)
	password := []string{"-var", "bmc_password=secret-of-the-bmc"}
	l.apply(password...)
	l.unchanged(password...)
	if got := strings.Count(l.holdfast("machine", "list", "--filter", "pool = gpu", "-o", "name"), "fra1-r7-"); got != 10 {
		l.Errorf("got %d machines, want 10", got)
	}
	l.apply(append(password, "-destroy")...)
}

func wrongValues(l *lab) {
	l.config(`
resource "holdfast_machine" "bad" {
  machine_id    = "m 9"
  mac_addresses = ["zz"]
  labels        = { "a b" = "c" }
}
resource "holdfast_plan" "bad" {
  document = "plan_id: p\nsteps:\n- name: a\n  sssh: {}\n"
}
`)
	l.refused([]string{"validate"},
		`machine_id: "m 9" is not 1 to 64 letters, digits, '.', '_', '-' or ':'`,
		`mac_addresses[0]: "zz" is not a MAC address such as aa:bb:cc:dd:ee:ff`,
		`labels: key "a b" is not 1 to 63 letters`,
		`document:4: unknown key "sssh"`, "on main.tf line 10")
}

func create(l *lab) {
	l.config(fleet + sources)
	out := l.apply()
	l.contains(out, `ids = "m-1,m-2,m-3"`, `phase = "READY"`, "peers = 1")
	l.unchanged()
	l.contains(l.holdfast("machine", "get", "m-2", "-o", "json"), "aa:bb:cc:00:00:02")
	// Formatting is no difference, and omitted fields are not managed.
	l.config(strings.NewReplacer("AA-BB", "aa:bb", "inspect: {}", "inspect: { }", "display_name: Check",
		"display_name: \"Check\"").Replace(fleet) + sources)
	l.holdfast("machine", "update", "m-1", "--label", "canary=yes", "--location", "fra1")
	l.unchanged()
	l.config(fleet)
}

func drift(l *lab) {
	l.holdfast("machine", "update", "m-1", "--rack", "r8", "--label", "env=test")
	l.holdfast("machine", "delete", "m-3", "--yes")
	l.differs(`rack = "r8" -> "r7"`, `"env" = "test" -> "prod"`, `holdfast_machine.m["m-3"] will be created`,
		"1 to add, 1 to change, 0 to destroy")
	l.apply()
	l.unchanged()
	l.contains(l.holdfast("machine", "get", "m-1", "-o", "json"), `"canary": "yes"`, `"location": "fra1"`,
		`"rack": "r7"`)
}

func change(l *lab) {
	l.config(strings.ReplaceAll(strings.ReplaceAll(fleet, `rack          = "r7"`, ""), "H100", "H200"))
	l.differs(`rack = "r7" -> null`, `gpu_type = "H100" -> "H200"`, "0 to add, 4 to change, 0 to destroy")
	l.apply()
	l.unchanged()
	if out := l.holdfast("machine", "list", "--filter", "rack = r7", "-o", "name"); out != "" {
		l.Errorf("got machines in rack r7: %s", out)
	}
	l.contains(l.holdfast("pool", "get", "gpu", "-o", "json"), `"gpu_type": "H200"`, `"site": "fra1"`)
	l.config(fleet)
	l.apply()
}

func plans(l *lab) {
	l.holdfast("run", "start", "m-1", "--plan", "plan/check", "--wait")
	l.config(strings.ReplaceAll(fleet, "name: look", "name: look-again"))
	l.refused([]string{"plan", "-input=false"}, `plan "plan/check" is immutable since a run refers to it: use a new plan_id`)
	l.config(strings.ReplaceAll(fleet, "plan/check", "plan/check-2"))
	l.differs("must be replaced", `"plan/check" -> "plan/check-2"`)
	l.contains(l.apply(), `The server keeps plan "plan/check"`)
	l.unchanged()
	l.holdfast("run", "start", "m-2", "--plan", "plan/check-2", "--wait")
	l.config(fleet)
	l.apply() // the plan is the same as the one that stayed
	l.unchanged()
}

func imports(l *lab) {
	l.holdfast("machine", "register", "--id", "old-1", "--rack", "r1", "--label", "env=prod", "--mac",
		"aa:bb:cc:00:00:99")
	existing := fleet + `
resource "holdfast_machine" "old" {
  machine_id    = "old-1"
  rack          = "r1"
  labels        = { env = "prod" }
  mac_addresses = ["aa:bb:cc:00:00:99"]
}
resource "holdfast_plan" "built_in" {
  document = yamlencode({ plan_id = "plan/verify", steps = [{ name = "x", inspect = {} }] })
}
`
	l.config(existing)
	l.refused([]string{"apply", "-auto-approve", "-target=holdfast_machine.old"}, `machine "old-1" exists already: import it`)
	if out, code := l.terraform("import", "holdfast_machine.old", "old-1"); code != 0 {
		l.Fatalf("import: exit code %d\n%s", code, out)
	}
	l.refused([]string{"import", "holdfast_plan.built_in", "plan/none"}, `plan "plan/none" not found`)
	managed, _, _ := strings.Cut(existing, `resource "holdfast_plan" "built_in"`)
	l.config(managed)
	l.unchanged()
	l.holdfast("machine", "register", "--id", "old-2", "--rack", "r2", "--label", "env=prod")
	l.config(managed + "import {\n  to = holdfast_machine.old2\n  id = \"old-2\"\n}\n" +
		"import {\n  to = holdfast_plan.stored\n  id = \"plan/check-2\"\n}\n")
	if out, code := l.terraform("plan", "-generate-config-out=generated.tf"); code != 0 {
		l.Fatalf("generate the configuration: exit code %d\n%s", code, out)
	}
	l.contains(l.apply(), "2 imported, 0 added, 0 changed, 0 destroyed")
	l.unchanged()
	if err := os.Remove(l.path("generated.tf")); err != nil {
		l.Fatal(err)
	}
}

func refusals(l *lab) {
	l.config(fleet + "\nresource \"holdfast_machine\" \"typo\" {\n  machine_id = \"t-1\"\n  pool = \"gpx\"\n}\n")
	l.refused([]string{"apply", "-auto-approve"}, `there is no pool "gpx": create it first`)
	l.holdfast("machine", "set-phase", "m-1", "IN_SERVICE")
	l.config("")
	l.refused([]string{"plan", "-input=false"}, `machine "m-1" is IN_SERVICE: move it to another phase first`)
	l.config(strings.ReplaceAll(fleet, "machine_id    = each.key", "machine_id    = each.key\n  force_delete  = true"))
	l.apply()
}

const otherKinds = `
variable "version_of_password" { default = 1 }
variable "password" {
  default   = "first-password"
  ephemeral = true
}
resource "holdfast_secret" "bmc" {
  name              = "bmc/r7"
  type              = "bmc"
  values_wo         = { username = "admin", password = var.password }
  values_wo_version = var.version_of_password
}
resource "holdfast_secret" "hook" {
  name              = "hook"
  type              = "token"
  values_wo         = { token = "signing-key" }
  values_wo_version = 1
}
resource "holdfast_webhook" "pager" {
  name       = "pager"
  url        = "https://example.com/hook"
  filter     = "type = \"run.failed\""
  secret_ref = holdfast_secret.hook.name
}
resource "holdfast_image" "debian" {
  name = "debian"
  disk = {
    url    = "https://example.com/debian.raw.zst"
    sha256 = sha256("debian")
  }
  compression = "ZSTD"
}
`

func others(l *lab) {
	l.config(fleet + otherKinds)
	l.apply()
	l.unchanged()
	version := func() string { return l.holdfast("secret", "get", "bmc/r7", "-o", "jsonpath={.version}") }
	state, err := os.ReadFile(l.path("terraform.tfstate"))
	if err != nil {
		l.Fatal(err)
	}
	for _, value := range []string{"first-password", "signing-key"} {
		if strings.Contains(string(state), value) {
			l.Errorf("the state contains the secret value %q", value)
		}
	}
	if got := l.apply("-var", "password=second") + version(); !strings.Contains(got, "No changes.") {
		l.Errorf("another value with the same version: got %s", got)
	}
	l.apply("-var", "password=second", "-var", "version_of_password=2")
	l.contains(version(), "2")
	l.holdfast("webhook", "put", "pager", "--url", "https://example.com/hook", "--disabled")
	l.differs("disabled = true -> null", `+ filter`, `+ secret_ref = "hook"`,
		"values_wo_version = 2 -> 1", "0 to add, 2 to change, 0 to destroy")
	l.apply()
	l.config(fleet + strings.NewReplacer("type = ", "typ = ", `sha256("debian")`, `"abc"`, "ZSTD", "LZ4").Replace(otherKinds))
	l.refused([]string{"validate"}, "compression: is not one of NONE, GZIP, ZSTD")
	l.config(fleet + strings.ReplaceAll(otherKinds, "url    = \"https://example.com/debian.raw.zst\"", ""))
	l.refused([]string{"plan", "-input=false"}, "disk.size_bytes")
	l.config(fleet + otherKinds)
	for _, at := range [][2]string{{"holdfast_webhook.pager", "pager"}, {"holdfast_image.debian", "debian"},
		{"holdfast_pool.gpu", "gpu"}} {
		if out, code := l.terraform("state", "rm", at[0]); code != 0 {
			l.Fatalf("state rm: %s", out)
		}
		if out, code := l.terraform("import", at[0], at[1]); code != 0 {
			l.Errorf("import %v: exit code %d\n%s", at, code, out)
		}
	}
	l.unchanged()
	// An import records no dependencies, and the secret cannot be deleted before the webhook.
	l.apply("-destroy", "-target=holdfast_webhook.pager")
	l.config(strings.ReplaceAll(fleet, "machine_id    = each.key", "machine_id    = each.key\n  force_delete  = true"))
	l.apply()
}

func destroy(l *lab) {
	out := l.apply("-destroy")
	l.contains(out, `The server keeps plan "plan/check"`)
	if out := l.holdfast("machine", "list", "-o", "name") + l.holdfast("pool", "list", "-o", "name"); out != "" {
		l.Errorf("got %q, want nothing left", out)
	}
}
