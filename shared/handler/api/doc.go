// Package api answers the operations of the ECS and EKS APIs that Berth serves itself: it checks
// what was asked for, and writes the desired state. Package wire decodes the requests and calls it;
// the other functions act on what it writes.
package api
