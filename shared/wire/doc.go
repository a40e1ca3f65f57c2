// Package wire is Berth's API as clients call it: the ECS API, the part of the EKS API about node
// groups, and the operations that only Berth has, all on one HTTP endpoint.
//
// A request comes in at [Server.ServeHTTP]. A request to / is an operation that the header
// X-Amz-Target names; every other path belongs to the EKS API. The operation's package reads
// the request, asks the scheduler through a small interface, and writes the answer. From the caller
// inwards there are:
//
//   - transport: what all protocols share on HTTP: size limit, headers, check of the host,
//     principal, faults
//   - access: who may call what, and signatures where no IAM stands in front
//   - awsjson: AWS JSON 1.1, the ECS API's protocol
//   - ecsapi, eksapi, berthapi: the operations, a file for each kind of thing
//   - input: how callers name things, bounds, pages
//   - answer: what AWS always sends, added to ECS's own answers
//   - stsapi: GetCallerIdentity, for the embedded tier and `berth proxy`
//   - shape: conversion between ECS's shapes and Berth's nouns
//
// functions/api and the embedded installation build a [Server] on the operations of
// shared/handler/api. Nothing is decided here: input is checked, and what is not supported is
// refused by name.
package wire
