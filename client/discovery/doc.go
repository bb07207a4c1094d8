// Package discovery is the client of service discovery (specification 003): it registers a service,
// pings for it, reports its health, and deregisters it in the end.
//
// It owns the life of one registration, the file that keeps its id, and the OAuth2 token that the
// requests carry. It does not know what the service does: the service says how it is by Healthy and
// Unhealthy.
//
// The names of the original Java SDK map as follows: RegistrationManager is Manager,
// lastAsSuccessful is Healthy, lastAsFail is Unhealthy, DiscoveryCallback is Callback,
// DiscoveryHelper.resolveRegistrationAddress is RegistrationAddress, start and deregister are the
// beginning and the end of Run.
package discovery
