// Package servicemodel checks requests and answers of the ECS and EKS APIs against botocore's
// service models, by which the aws CLI and boto3 write and read them.
//
// [Load] reads the models of the version that tools/moto.txt pins, which tests/run fetches into
// .cache/venv.
// [Models.Check] stands before a server under test: it passes requests on, and reports each answer
// that the model does not have, each request that the model does not have and that succeeded all
// the same, and each error whose code the model does not know.
//
// Checked are operations, required members, unknown members, types, and the values of enums.
package servicemodel
