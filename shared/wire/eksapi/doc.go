// Package eksapi answers the operations of the EKS API on node groups and their updates, which is
// REST with JSON below /clusters/.
//
// handler.go finds the operation by method and path, nodegroup.go and update.go have the
// operations, shape.go the shapes. [NodeGroups] is what they ask of Berth.
package eksapi
