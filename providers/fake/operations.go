package fake

import (
	"encoding/json"
	"fmt"
)

// The operations of a machine. The name of an operation that changes something is also the name of
// its effect.
const (
	opInspect       = "inspect"
	opHealth        = "health"
	opPowerState    = "power_state"
	opBootDevice    = "get_boot_device"
	opMedia         = "get_media"
	opInstallStatus = "install_status"
	opCommandStatus = "command_status"
	opNodeStatus    = "node_status"
	opJoinStatus    = "join_status"
	opNetworkStatus = "net_status"
	opLight         = "light"
	opEvents        = "events"
	opResetAt       = "bmc_reset_at"
	opInventory     = "inventory"
	opConsole       = "console"
	opConsoleWrite  = "console_write"

	opPowerOn        = "power_on"
	opPowerOff       = "power_off"
	opSetBoot        = "boot_device"
	opInsertMedia    = "media_insert"
	opEjectMedia     = "media_eject"
	opIdentify       = "identify"
	opClearEvents    = "clear_log"
	opResetBMC       = "bmc_reset"
	opInstall        = "install"
	opStartCommand   = "command"
	opKillCommand    = "kill"
	opStartJoin      = "join"
	opApplyNetwork   = "net_apply"
	opConfirmNetwork = "net_confirm"
)

// Effects without an operation of the same name: a wipe is an install without an image, and the
// others are done by commands on the host.
const (
	opWipe         = "wipe"
	effectReboot   = "reboot"
	effectPoweroff = "poweroff"
)

// operation is one operation of a fleet.
type operation struct {
	name      string
	effect    bool // it changes something: it can fail, lie, and happen after its caller has gone
	bmc       bool // it needs the BMC's credentials
	host      bool // it needs a host that answers
	observes  bool // it reports an unreachable machine instead of failing
	exclusive bool // two at once on one machine count as an overlap
	run       func(c *call, args json.RawMessage) (any, error)
}

// typed returns an operation that decodes its arguments for f.
func typed[A any](f func(c *call, args A) (any, error)) func(*call, json.RawMessage) (any, error) {
	return func(c *call, raw json.RawMessage) (any, error) {
		var a A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &a); err != nil {
				return nil, fmt.Errorf("read arguments: %w", err)
			}
		}
		return f(c, a)
	}
}

func operations() []operation {
	return []operation{
		{name: opInspect, observes: true, run: typed((*call).inspect)},
		{name: opHealth, bmc: true, run: typed((*call).health)},
		{name: opPowerState, bmc: true, run: typed((*call).powerState)},
		{name: opBootDevice, bmc: true, run: typed((*call).bootDevice)},
		{name: opMedia, bmc: true, run: typed((*call).mediaURL)},
		{name: opInstallStatus, observes: true, run: typed((*call).installStatus)},
		{name: opCommandStatus, host: true, run: typed((*call).commandStatus)},
		{name: opNodeStatus, observes: true, run: typed((*call).nodeStatus)},
		{name: opJoinStatus, host: true, run: typed((*call).joinStatus)},
		{name: opNetworkStatus, host: true, run: typed((*call).networkStatus)},
		{name: opLight, bmc: true, run: typed((*call).lightState)},
		{name: opEvents, bmc: true, run: typed((*call).readEvents)},
		{name: opResetAt, run: typed((*call).resetWhen)},
		{name: opInventory, bmc: true, run: typed((*call).inventory)},
		{name: opConsole, bmc: true, run: typed((*call).readConsole)},
		{name: opConsoleWrite, bmc: true, run: typed((*call).writeConsole)},

		{name: opPowerOn, effect: true, bmc: true, exclusive: true, run: typed((*call).powerOn)},
		{name: opPowerOff, effect: true, bmc: true, exclusive: true, run: typed((*call).powerOff)},
		{name: opSetBoot, effect: true, bmc: true, exclusive: true, run: typed((*call).setBootDevice)},
		{name: opInsertMedia, effect: true, bmc: true, exclusive: true, run: typed((*call).insertMedia)},
		{name: opEjectMedia, effect: true, bmc: true, exclusive: true, run: typed((*call).ejectMedia)},
		{name: opIdentify, effect: true, bmc: true, exclusive: true, run: typed((*call).identify)},
		{name: opClearEvents, effect: true, bmc: true, exclusive: true, run: typed((*call).clearEvents)},
		{name: opResetBMC, effect: true, bmc: true, exclusive: true, run: typed((*call).resetBMC)},
		{name: opInstall, effect: true, exclusive: true, run: typed((*call).startInstall)},
		{name: opStartCommand, effect: true, host: true, run: typed((*call).startCommand)},
		{name: opKillCommand, effect: true, host: true, run: typed((*call).killCommand)},
		{name: opStartJoin, effect: true, host: true, run: typed((*call).startJoin)},
		{name: opApplyNetwork, effect: true, host: true, run: typed((*call).applyNetwork)},
		{name: opConfirmNetwork, effect: true, host: true, run: typed((*call).confirmNetwork)},
	}
}

// Operations returns the names that Faults allow in hang, or only those of effects, which they
// allow in lie.
func Operations(effects bool) []string {
	var ns []string
	for _, o := range operations() {
		if o.effect || !effects {
			ns = append(ns, o.name)
		}
	}
	return ns
}
