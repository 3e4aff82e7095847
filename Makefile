# Two commands matter: `make run` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
# Where `make install` puts the program: for all users if root installs it.
PREFIX ?= $(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)
# Incremental builds are of no use to a machine that builds once, and they are most of what fills its disk.
ifdef CI
export CARGO_INCREMENTAL := 0
endif

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Start the product with a demo and print the address of its page (Ctrl-C stops it; ARGS=--exit stops after the demo)
	./scripts/tools run
	cd ui && npm run --silent build
	$(CARGO) build -p kubeopencode
	@echo "The program is $${CARGO_TARGET_DIR:-target}/debug/kubeopencode; \`make install\` puts kubeopencode on the PATH."
	"$${CARGO_TARGET_DIR:-target}/debug/kubeopencode" up --demo $(ARGS)

.PHONY: install
install: ## Install the program, completions and manual pages (PREFIX=/usr/local for root, ~/.local otherwise)
	./scripts/tools run
	cd ui && npm run --silent build
	$(CARGO) build --locked --profile installed -p kubeopencode
	./scripts/install "$${CARGO_TARGET_DIR:-target}/installed/kubeopencode" "$(PREFIX)"

.PHONY: uninstall
uninstall: ## Remove what `make install` installed (data in ~/.kubeopencode stays)
	./scripts/install --remove "$(PREFIX)"

.PHONY: test
test: tools ## Run every check and every test
	./scripts/test

.PHONY: test-only
test-only: ## Run one suite or one case: SUITE=controllers CASE=embedded::queue (list them: CASE=--list)
	$(CARGO) build --quiet --locked -p kubeopencode
	INSTA_UPDATE=no $(CARGO) test --quiet --locked --workspace --test "$(SUITE)" -- $(CASE)

.PHONY: quick
quick: ## Run the checks that need no cluster: format, lints, unit tests, generated files
	./scripts/test quick

.PHONY: generate
generate: ## Rewrite generated files (CRDs, reference pages, the page's types)
	$(CARGO) run --quiet -p xtask -- generate
	cd ui && npm run --silent generate

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all
	cd ui && npm run --silent format

.PHONY: tools
tools: ## Install the tools that the other commands need
	./scripts/tools

.PHONY: cluster
cluster: tools ## Start a real Kubernetes control plane (NODE=1 adds a node)
	$(CARGO) run --quiet -p testenv -- up $(if $(NODE),--node)

.PHONY: bench
bench: tools ## Measure the product, as ratios within one run
	$(CARGO) build --quiet --release -p bench
	$(CARGO) rustc --quiet --release -p kubeopencode --bin kubeopencode -- -C target-feature=+crt-static # as in the images
	"$${CARGO_TARGET_DIR:-target}/release/bench" all

.PHONY: clean
clean: ## Remove build output (downloaded tools stay in the cache)
	$(CARGO) clean
