// Package vendor opens drivers of bmclib by name: vendors' own interfaces, Intel AMT, and BMC
// services with bmclib's RPC.
//
// It owns the list of drivers, their configuration and the meaning of their errors. It must not
// decide when a driver is used, and it adds no evidence. Package bmclib enforces the budgets and
// the not-after time, and package bmc chooses the driver.
package vendor
