// Package feed has the commands of what a cluster announces: events, webhooks that receive them,
// and services of the discovery API.
//
// It must not keep a position: the cursors of the API are positions.
package feed
