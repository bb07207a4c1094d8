package ui

import (
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// navGroup is a group of pages in the navigation.
type navGroup struct {
	Title   string
	Entries []navEntry
}

// navEntry is a page in the navigation.
type navEntry struct {
	Key, Link, Text string
	method          string // its callers may open the page; empty: all viewers may
}

// navigation returns all pages of the navigation.
func navigation() []navGroup {
	return []navGroup{
		{"Fleet", []navEntry{
			{Key: "overview", Link: "/ui/", Text: "Overview"},
			{Key: "machines", Link: "/ui/machines", Text: "Machines"},
			{Key: "hardware", Link: "/ui/hardware", Text: "Hardware"},
			{Key: "pools", Link: "/ui/pools", Text: "Pools"},
			{Key: "services", Link: "/ui/services", Text: "Services"},
		}},
		{"Work", []navEntry{
			{Key: "runs", Link: "/ui/runs", Text: "Runs"},
			{Key: "waves", Link: "/ui/waves", Text: "Waves"},
			{Key: "plans", Link: "/ui/plans", Text: "Plans"},
			{Key: "images", Link: "/ui/images", Text: "Images"},
			{Key: "installs", Link: "/ui/installs", Text: "Installs"},
		}},
		{"Control plane", []navEntry{
			{Key: "cluster", Link: "/ui/cluster", Text: "Cluster"},
			{Key: "charts", Link: "/ui/charts", Text: "Charts"},
			{Key: "alerts", Link: "/ui/alerts", Text: "Alerts"},
			{Key: "webhooks", Link: "/ui/webhooks", Text: "Webhooks", method: "WebhookService/ListWebhooks"},
		}},
		{"Access", []navEntry{
			{Key: "tokens", Link: "/ui/tokens", Text: "Tokens", method: "AccessService/ListTokens"},
			{Key: "sessions", Link: "/ui/sessions", Text: "Sessions"},
			{Key: "secrets", Link: "/ui/secrets", Text: "Secrets", method: "SecretService/ListSecrets"},
			{Key: "audit", Link: "/ui/audit", Text: "Audit", method: "AuditService/ListAuditEvents"},
		}},
	}
}

// navigationOf returns the pages that a user may open. Of an unknown user (nil) these are the pages
// of all viewers.
func navigationOf(id *holdfastv1.Identity) []navGroup {
	var all []navGroup
	for _, g := range navigation() {
		shown := navGroup{Title: g.Title}
		for _, e := range g.Entries {
			if e.method == "" || id != nil && may(id, e.method) {
				shown.Entries = append(shown.Entries, e)
			}
		}
		if len(shown.Entries) > 0 {
			all = append(all, shown)
		}
	}
	return all
}

// navAt returns the page of the navigation that a path is below, or none.
func navAt(path string) navEntry {
	for _, g := range navigation() {
		for _, e := range g.Entries {
			if path == e.Link || e.Key != "overview" && strings.HasPrefix(path, e.Link+"/") {
				return e
			}
		}
	}
	return navEntry{}
}
