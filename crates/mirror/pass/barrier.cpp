// The compiler's part of the mirror: a pass for clang that makes each store that may hit the
// region a second time, in the region's mirror.
//
//   clang -fpass-plugin=libretrovane-mirror-pass.so ...
//
// It runs behind all optimisations, so that it sees the stores that will be made. Addresses
// are in the region if their upper bits are those of the window (layout.rs). A store is
// mirrored by copying what is in memory behind it, or, where it is the only one that waits, by
// storing the value again; so one copy serves several stores, up to the next call or atomic
// operation, behind which another thread may look. One or two pieces are copied in place; more of
// them, and volatile stores, by a restartable sequence.
//
// Whatever else may write to memory is covered, or refused: at run time where its address is
// known and turns out to be in the region (rv_mirror_refuse), else by a warning, or an error
// with RETROVANE_MIRROR_PASS=strict in the environment.
//
// Deliberately absent: assumptions on types or aliases beyond what the object says that a
// pointer comes from.
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/DebugLoc.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#if __has_include("llvm/Plugins/PassPlugin.h")
// Since LLVM 22.
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif
#include "llvm/Support/MathExtras.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

#include <cstdlib>
#include <string>

using namespace llvm;

namespace {

/// StringRef's own function has another name from LLVM 16 on.
bool beginsWith(StringRef text, StringRef start)
{
	return text.substr(0, start.size()) == start;
}

// As in layout.rs.
constexpr unsigned windowBits = 40;
constexpr uint64_t windowKey = 0x20;
constexpr int64_t pageBytes = 4096;
/// What one sequence copies at most.
constexpr uint64_t sequenceBytesMax = 128;
/// More pieces of an object are copied by a function.
constexpr size_t piecesInPlaceMax = 2;
/// Objects that are copied in place together.
constexpr size_t objectsInPlaceMax = 3;

/// What a library function that was not compiled with the pass writes.
enum class Length { Argument, Result, ResultTimes, String, Printed, Product, Constant };

struct Writer {
	unsigned pointer;
	Length length;
	int argument;
	int factor;
};

bool libraryWriter(StringRef name, Writer &writer)
{
	struct Row {
		const char *name;
		Writer writer;
	};
	static const Row rows[] = {
		{"memcpy", {0, Length::Argument, 2, -1}},
		{"memmove", {0, Length::Argument, 2, -1}},
		{"memset", {0, Length::Argument, 2, -1}},
		{"__memcpy_chk", {0, Length::Argument, 2, -1}},
		{"__memmove_chk", {0, Length::Argument, 2, -1}},
		{"__memset_chk", {0, Length::Argument, 2, -1}},
		{"mempcpy", {0, Length::Argument, 2, -1}},
		{"bzero", {0, Length::Argument, 1, -1}},
		{"bcopy", {1, Length::Argument, 2, -1}},
		{"strncpy", {0, Length::Argument, 2, -1}},
		{"strcpy", {0, Length::String, -1, -1}},
		{"stpcpy", {0, Length::String, -1, -1}},
		{"strcat", {0, Length::String, -1, -1}},
		{"strncat", {0, Length::String, -1, -1}},
		{"__strcpy_chk", {0, Length::String, -1, -1}},
		{"__strcat_chk", {0, Length::String, -1, -1}},
		{"sprintf", {0, Length::String, -1, -1}},
		{"vsprintf", {0, Length::String, -1, -1}},
		{"__sprintf_chk", {0, Length::String, -1, -1}},
		{"snprintf", {0, Length::Printed, 1, -1}},
		{"vsnprintf", {0, Length::Printed, 1, -1}},
		{"__snprintf_chk", {0, Length::Printed, 1, -1}},
		{"__vsnprintf_chk", {0, Length::Printed, 1, -1}},
		{"fgets", {0, Length::String, -1, -1}},
		{"read", {1, Length::Result, -1, -1}},
		{"pread", {1, Length::Result, -1, -1}},
		{"pread64", {1, Length::Result, -1, -1}},
		{"recv", {1, Length::Result, -1, -1}},
		{"recvfrom", {1, Length::Result, -1, -1}},
		{"getrandom", {0, Length::Result, -1, -1}},
		{"readlink", {1, Length::Result, -1, -1}},
		{"fread", {0, Length::ResultTimes, 1, -1}},
		{"qsort", {0, Length::Product, 1, 2}},
		// std::istream::read, and what std::unordered_map keeps of when it grows.
		{"_ZNSi4readEPcl", {1, Length::Argument, 2, -1}},
		{"_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm", {0, Length::Constant, -1, 16}},
		{"_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm", {0, Length::Constant, -1, 16}},
	};
	for (const Row &row : rows)
		if (name == row.name) {
			writer = row.writer;
			return true;
		}
	return false;
}

/// The library's own of functions that relink nodes of containers: libstdc++ has them in its library, and stores by many
/// pointers in them (crates/mirror/region/src/containers.rs).
StringRef containerFunction(StringRef name)
{
	return StringSwitch<StringRef>(name)
	    .Case("_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_", "rv_mirror_tree_insert")
	    .Case("_ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_", "rv_mirror_tree_erase")
	    .Case("_ZNSt8__detail15_List_node_base7_M_hookEPS0_", "rv_mirror_list_hook")
	    .Case("_ZNSt8__detail15_List_node_base9_M_unhookEv", "rv_mirror_list_unhook")
	    .Case("_ZNSt8__detail15_List_node_base11_M_transferEPS0_S1_", "rv_mirror_list_transfer")
	    .Case("_ZNSt8__detail15_List_node_base10_M_reverseEv", "rv_mirror_list_reverse")
	    .Case("_ZNSt8__detail15_List_node_base4swapERS0_S1_", "rv_mirror_list_swap")
	    .Default("");
}

/// What is told at compile time: a remark that cannot be overlooked.
class Refusal : public DiagnosticInfo {
	std::string text;

public:
	Refusal(std::string text, DiagnosticSeverity severity)
	    : DiagnosticInfo(static_cast<DiagnosticKind>(getNextAvailablePluginDiagnosticKind()), severity),
	      text(std::move(text))
	{
	}
	void print(DiagnosticPrinter &printer) const override { printer << text; }
};

/// A store that waits for its barrier: bytes from a base.
struct Pending {
	Value *base;
	int64_t offset;
	uint64_t bytes;
	uint64_t alignment;
	/// What was stored, where no other store waits that may be to the same place; else null.
	Value *value;
};

/// Stores to one object: from its address on.
struct Object {
	Value *at;
	SmallVector<Pending, 8> pieces;
};

/// What an instruction stores: a plain store, or a copy of few bytes.
struct Write {
	Value *pointer;
	uint64_t bytes;
	uint64_t alignment;
	Value *value;
};

/// Stores of a loop that together cover a range without gaps, and more of it with each turn.
struct Range {
	struct Piece {
		Instruction *store;
		Write write;
		int64_t offset;
	};
	/// Where the lowest piece of the first turn is.
	const SCEV *start;
	/// From turn to turn; 0: always the same place.
	int64_t step;
	/// By their offsets.
	SmallVector<Piece, 4> pieces;
	/// Of one turn.
	uint64_t bytes;

	bool covers();
};

/// True if there are no gaps between the pieces, and between turns.
bool Range::covers()
{
	int64_t first = pieces.front().offset, end = first;
	for (const Piece &piece : pieces) {
		if (piece.offset > end)
			return false;
		end = std::max(end, piece.offset + int64_t(piece.write.bytes));
	}
	bytes = end - first;
	return int64_t(bytes) >= std::abs(step);
}

/// What is copied behind a loop: bytes from an address on, before an instruction.
struct BehindLoop {
	Instruction *before;
	Value *address;
	Value *bytes;
	/// Not 0: this many bytes always, if any.
	uint64_t fixed;
	uint64_t alignment;
};

/// The analyses of a function.
struct Analyses {
	DominatorTree &dominators;
	LoopInfo &loops;
	ScalarEvolution &evolution;
};

class Barrier {
	Module &module;
	const DataLayout &layout;
	IntegerType *word;
	bool strict;
	SmallPtrSet<const Argument *, 32> outsideArguments;
	/// Stores that are mirrored behind their loop.
	SmallPtrSet<const Instruction *, 32> ranged;
	/// A signal handler may store to the same place: the copy has to begin again then.
	bool mayBeInterrupted = false;
	/// A copy was replaced by a call of the library.
	bool hasReplaced = false;

public:
	explicit Barrier(Module &module)
	    : module(module), layout(module.getDataLayout()), word(Type::getInt64Ty(module.getContext()))
	{
		const char *mode = std::getenv("RETROVANE_MIRROR_PASS");
		strict = mode && StringRef(mode) == "strict";
	}

	bool run(Function &function, FunctionAnalysisManager &manager);
	bool libraryPointers();
	void findOutsideArguments();

private:
	void findRanges(Loop &loop, Analyses &known, SmallVectorImpl<BehindLoop> &copies);
	void copyBehind(Loop &loop, Analyses &known, Range &range, SmallVectorImpl<BehindLoop> &copies);
	void insert(const BehindLoop &copy);
	bool isWrite(Instruction *instruction, Write &write);
	void flush(SmallVectorImpl<Pending> &pending, Instruction *before);
	void note(SmallVectorImpl<Pending> &pending, Instruction *store, const Write &write);
	bool visit(Instruction *instruction, SmallVectorImpl<Pending> &pending);
	void visitCall(CallBase *call);
	void visitIntrinsic(IntrinsicInst *call);
	void visitAsm(CallBase *call);
	void visitLibrary(CallBase *call, const Writer &writer);
	void maskedStore(IntrinsicInst *call);
	void scatter(IntrinsicInst *call);
	void compressStore(IntrinsicInst *call);
	void atomic(Instruction *instruction, Value *pointer, Type *type);
	void wrote(IRBuilder<> &builder, Value *address, Value *bytes);
	void refuseAt(Instruction *before, Value *pointer, const std::string &what);
	void tell(Instruction *at, const std::string &what);
	std::string place(Instruction *at);
	Value *address(IRBuilder<> &builder, Value *pointer);
	Value *inWindow(IRBuilder<> &builder, Value *address);
	bool isOutside(Value *pointer);
	Function *sequence(ArrayRef<Pending> pieces, bool &isWide);
	void put(IRBuilder<> &builder, Value *base, ArrayRef<Pending> pieces);
	bool isInPlace(ArrayRef<Pending> pieces);
	void inPlace(IRBuilder<> &builder, ArrayRef<Object> objects, bool isChecked);
	Instruction *behind(Instruction *instruction);
};

Value *Barrier::address(IRBuilder<> &builder, Value *pointer)
{
	return builder.CreatePtrToInt(pointer, word);
}

Value *Barrier::inWindow(IRBuilder<> &builder, Value *address)
{
	return builder.CreateICmpEQ(builder.CreateLShr(address, windowBits), ConstantInt::get(word, windowKey));
}

/// True for pointers to what is never in the region: the stack, variables, what malloc just gave.
bool Barrier::isOutside(Value *pointer)
{
	if (pointer->getType()->isPointerTy() && pointer->getType()->getPointerAddressSpace() != 0)
		return true;
	const Value *object = getUnderlyingObject(pointer, 0);
	if (isa<AllocaInst>(object) || isa<GlobalValue>(object) || isa<ConstantPointerNull>(object) ||
	    isa<UndefValue>(object))
		return true;
	if (auto *argument = dyn_cast<Argument>(object))
		return argument->hasByValAttr() || outsideArguments.count(argument);
	if (auto *call = dyn_cast<CallBase>(object))
		if (const Function *callee = call->getCalledFunction())
			return StringSwitch<bool>(callee->getName())
			    .Cases("malloc", "calloc", "_Znwm", "_Znam", "strdup", "__errno_location", true)
			    .Default(false);
	return false;
}

/// Arguments of functions all of whose calls are here and give pointers that are not into the region.
/// All are taken for such first, so that functions that call themselves are seen through.
void Barrier::findOutsideArguments()
{
	for (Function &function : module)
		if (!function.isDeclaration() && function.hasLocalLinkage() && !function.hasAddressTaken())
			for (Argument &argument : function.args())
				if (argument.getType()->isPointerTy())
					outsideArguments.insert(&argument);
	for (bool changed = true; changed;) {
		changed = false;
		for (Function &function : module)
			for (Instruction &instruction : instructions(function)) {
				auto *call = dyn_cast<CallBase>(&instruction);
				Function *callee = call ? call->getCalledFunction() : nullptr;
				if (!callee)
					continue;
				for (Argument &argument : callee->args())
					if (outsideArguments.count(&argument) && !isOutside(call->getArgOperand(argument.getArgNo())))
						changed |= outsideArguments.erase(&argument);
			}
	}
}

std::string Barrier::place(Instruction *at)
{
	std::string function = at->getFunction()->getName().str();
	const DebugLoc &location = at->getDebugLoc();
	if (!location)
		return function;
	return (location->getFilename() + ":" + Twine(location.getLine()) + " (" + function + ")").str();
}

void Barrier::tell(Instruction *at, const std::string &what)
{
	std::string text = "retrovane-mirror: " + place(at) + ": " + what;
	module.getContext().diagnose(Refusal(text, strict ? DS_Error : DS_Warning));
}

Instruction *Barrier::behind(Instruction *instruction)
{
	if (auto *invoke = dyn_cast<InvokeInst>(instruction)) {
		BasicBlock *normal = invoke->getNormalDest();
		if (!normal->getSinglePredecessor())
			normal = SplitEdge(invoke->getParent(), normal);
		return &*normal->getFirstInsertionPt();
	}
	return instruction->getNextNode();
}

void Barrier::wrote(IRBuilder<> &builder, Value *address, Value *bytes)
{
	FunctionCallee callee = module.getOrInsertFunction("rv_mirror_wrote", builder.getVoidTy(), word, word);
	builder.CreateCall(callee, {address, bytes});
}

/// Instructions that copy pieces of an object, of which a register has an address, to the mirror at the distance in r11.
std::string copyPieces(ArrayRef<Pending> pieces, const std::string &address, int64_t origin, bool &isWide)
{
	std::string copies;
	isWide = false;
	for (const Pending &piece : pieces)
		for (uint64_t done = 0; done < piece.bytes;) {
			uint64_t left = piece.bytes - done, bytes = left >= 16 ? 16 : uint64_t(1) << Log2_64(left);
			isWide |= bytes == 16;
			static const char *const registers[] = {"b %r10b", "w %r10w", "l %r10d", "q %r10", "ups %xmm15"};
			auto [suffix, own] = StringRef(registers[Log2_64(bytes)]).split(' ');
			std::string place = std::to_string(piece.offset - origin + int64_t(done));
			copies += ("mov" + suffix + " " + place + "(" + address + "), " + own + "\nmov" + suffix + " " + own +
			           ", " + place + "(" + address + ",%r11)\n")
			              .str();
			done += bytes;
		}
	return copies;
}

int64_t lastByte(ArrayRef<Pending> pieces)
{
	int64_t last = pieces.front().offset;
	for (const Pending &piece : pieces)
		last = std::max(last, piece.offset + int64_t(piece.bytes) - 1);
	return last;
}

bool isWithinPage(ArrayRef<Pending> pieces)
{
	return pieces.size() == 1 && pieces.front().alignment >= pieces.front().bytes;
}

/// How a value is stored to the mirror, at the distance in r11 from operand 0: as operand 1 with a constraint, or as a number.
struct ValueStore {
	std::string code, constraint;
};

/// Whether what was stored need not be loaded again.
bool storesValue(const Pending &piece, ValueStore &store)
{
	if (!piece.value)
		return false;
	Type *type = piece.value->getType(), *part = type->getScalarType();
	bool isVector = isa<FixedVectorType>(type) && piece.bytes == 16 &&
	                (part->isIntegerTy() || part->isFloatTy() || part->isDoubleTy());
	if (auto *number = dyn_cast<ConstantInt>(piece.value)) {
		if (!isPowerOf2_64(piece.bytes) || piece.bytes > 8 || !isInt<32>(number->getSExtValue()))
			return false;
		store = {std::string("mov") + "bwlq"[Log2_64(piece.bytes)] + " $$" + std::to_string(number->getSExtValue()), ""};
	} else if (isa<ConstantPointerNull>(piece.value)) {
		store = {"movq $$0", ""};
	} else if (isa<Constant>(piece.value)) {
		return false;
	} else if (type->isPointerTy() || type->isIntegerTy(64)) {
		store = {"movq $1", "r"};
	} else if (type->isIntegerTy(32)) {
		store = {"movl ${1:k}", "r"};
	} else if (type->isIntegerTy(16)) {
		store = {"movw ${1:w}", "r"};
	} else if (type->isIntegerTy(8)) {
		store = {"movb ${1:b}", "r"};
	} else if (type->isFloatTy() || type->isDoubleTy()) {
		store = {type->isFloatTy() ? "movss $1" : "movsd $1", "x"};
	} else if (isVector) {
		store = {"movups $1", "x"};
	} else {
		return false;
	}
	store.code += ", " + std::to_string(piece.offset) + "($0,%r11)\n";
	return true;
}

bool Barrier::isInPlace(ArrayRef<Pending> pieces)
{
	return pieces.size() <= piecesInPlaceMax && !mayBeInterrupted && isInt<32>(pieces.front().offset) &&
	       isInt<32>(lastByte(pieces));
}

/// The second store in place: copies pieces of objects, then marks their pages. While the mirror is frozen it marks them, and
/// looks once more whether that is over. It needs no restartable sequence:
/// docs/adr/0099-plain-stores-are-mirrored-in-place.md. With `isChecked` it looks at each whether it is in the region: in the
/// same assembly, so that no block is split. r10, r11, the flags and, for wide pieces, xmm15 change.
void Barrier::inPlace(IRBuilder<> &builder, ArrayRef<Object> objects, bool isChecked)
{
	std::string hot, seldom, frozen, constraints;
	bool isAnyWide = false, isAlone = objects.size() == 1;
	SmallVector<Value *, 4> operands;
	ValueStore store;
	bool hasValue = isAlone && objects[0].pieces.size() == 1 && storesValue(objects[0].pieces.front(), store);
	std::string toPage = "shrq $$12, %r10\n", mark = "movb $$1, (%r10)\n", look = "cmpb $$0, (%r10)\n";
	std::string control = "movq rv_mirror_pass_1_control@GOTPCREL(%rip), %r10\nmovq (%r10), %r11\ntestq %r11, %r11\n";
	std::string check;
	for (size_t index = 0; index < objects.size(); index++) {
		ArrayRef<Pending> pieces = objects[index].pieces;
		std::string number = std::to_string(index), operand = "$" + number;
		auto load = [&](int64_t offset) {
			std::string from = offset ? "leaq " + std::to_string(offset) + "(" + operand + ")" : "movq " + operand;
			return from + ", %r10\n";
		};
		bool isWide = false, isOne = isWithinPage(pieces);
		std::string copies = hasValue ? store.code : copyPieces(pieces, operand, 0, isWide);
		std::string first = load(pieces.front().offset);
		std::string firstPage = first + toPage, lastPage = load(lastByte(pieces)) + toPage;
		check = first + "shrq $$" + std::to_string(windowBits) + ", %r10\ncmpl $$" + std::to_string(windowKey) +
		        ", %r10d\n";
		// Where there is one object only, it is looked at before anything else.
		hot += (isChecked && !isAlone ? check + "jne 7" + number + "f\n" : "") + copies + firstPage + look + "je 6" + number +
		       "f\n5" + number + ":\n" + (isOne ? "" : lastPage + look + "je 4" + number + "f\n") + "7" + number + ":\n";
		seldom += "6" + number + ": " + mark + "jmp 5" + number + "b\n" +
		          (isOne ? "" : "4" + number + ": " + mark + "jmp 7" + number + "b\n");
		frozen += (isChecked && !isAlone ? check + "jne 3" + number + "f\n" : "") + firstPage + mark +
		          (isOne ? "" : lastPage + mark) + "3" + number + ":\n";
		operands.push_back(objects[index].at);
		constraints += "r,";
		isAnyWide |= isWide;
	}
	std::string code = (isChecked && isAlone ? check + "jne 97f\n" : "") + control + "jz 93f\n92:\n" + hot + "97:\n" +
	                   // Where a function is one of several alike, this is discarded with it.
	                   ".pushsection .text.rv_mirror_seldom, \"ax?\", @progbits\n"
	                   "93: " + frozen + control + "jnz 92b\njmp 97b\n" + seldom + ".popsection\n";
	if (!store.constraint.empty()) {
		operands.push_back(objects[0].pieces.front().value);
		constraints += store.constraint + ",";
	}
	// These registers change, and no other is spilled.
	constraints += std::string(isAnyWide ? "~{xmm15}," : "") + "~{r10},~{r11},~{memory},~{dirflag},~{fpsr},~{flags}";
	SmallVector<Type *, 4> types;
	for (Value *operand : operands)
		types.push_back(operand->getType());
	auto *type = FunctionType::get(builder.getVoidTy(), types, false);
	builder.CreateCall(InlineAsm::get(type, code, constraints, true), operands);
}

/// The function that copies pieces of an object to the mirror in one restartable sequence, as those of
/// `crates/mirror/region/src/sections.rs`: the address is in rax; r10, r11, the flags and, if `isWide`, xmm15 change.
Function *Barrier::sequence(ArrayRef<Pending> pieces, bool &isWide)
{
	std::string name = "rv_mirror_puts", copies = copyPieces(pieces, "%rax", pieces.front().offset, isWide);
	int64_t first = pieces.front().offset, last = lastByte(pieces);
	auto at = [](int64_t offset) { return std::to_string(offset); };
	for (const Pending &piece : pieces)
		name += "_" + at(piece.offset - first) + "x" + std::to_string(piece.bytes);
	bool isInOnePage = isWithinPage(pieces);
	if (!isInOnePage)
		name += "u";
	if (Function *known = module.getFunction(name))
		return known;
	std::string marks = "movq %rax, %r10\nshrq $$12, %r10\ncmpb $$0, (%r10)\nje 96f\n";
	if (!isInOnePage)
		marks += "leaq " + at(last - first) + "(%rax), %r10\nshrq $$12, %r10\ncmpb $$0, (%r10)\nje 96f\n";
	std::string code = "90: leaq 91f(%rip), %r10\nmovq rv_mirror_pass_1_control@GOTPCREL(%rip), %r11\n"
	                   "movq 16(%r11), %r11\nmovq %r10, %fs:(%r11)\n92:\n" + marks +
	                   "movq rv_mirror_pass_1_control@GOTPCREL(%rip), %r11\nmovq (%r11), %r11\ntestq %r11, %r11\njz 93f\n" + copies +
	                   "93: ret\n"
	                   // A page's first store: the mark is made outside of the sequence, which then begins again.
	                   "96: movb $$1, (%r10)\njmp 90b\n"
	                   ".pushsection rv_mirror_sections, \"aw\"\n.balign 32\n"
	                   "91: .long 0, 0\n.quad 92b, 93b - 92b, 94f\n.popsection\n"
	                   ".pushsection .text.rv_mirror_aborts, \"ax\", @progbits\n"
	                   ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n94: jmp 90b\n.popsection\n";
	auto *type = FunctionType::get(Type::getVoidTy(module.getContext()), false);
	Function *function = Function::Create(type, GlobalValue::InternalLinkage, name, module);
	for (Attribute::AttrKind kind : {Attribute::Naked, Attribute::NoInline, Attribute::NoUnwind})
		function->addFnAttr(kind);
	IRBuilder<> builder(BasicBlock::Create(module.getContext(), "", function));
	builder.CreateCall(InlineAsm::get(type, code, "", true), {});
	builder.CreateUnreachable();
	return function;
}

void Barrier::put(IRBuilder<> &builder, Value *base, ArrayRef<Pending> pieces)
{
	bool isWide;
	if (isInPlace(pieces))
		return inPlace(builder, {Object{base, SmallVector<Pending, 8>(pieces.begin(), pieces.end())}}, false);
	Value *at = builder.CreateAdd(base, ConstantInt::getSigned(word, pieces.front().offset));
	std::string changed = "~{r10},~{r11},~{memory},~{dirflag},~{fpsr},~{flags}";
	Function *function = sequence(pieces, isWide);
	auto *type = FunctionType::get(builder.getVoidTy(), {word, function->getType()}, false);
	builder.CreateCall(InlineAsm::get(type, "call ${1:P}", "{rax},i," + (isWide ? "~{xmm15}," + changed : changed), true),
	                   {at, function});
}

/// Barriers for all stores that wait for one; neighbours are joined.
void Barrier::flush(SmallVectorImpl<Pending> &pending, Instruction *before)
{
	// Of several stores, the last one to a place counts, whichever pointers they are made by.
	if (pending.size() > 1)
		for (Pending &one : pending)
			one.value = nullptr;
	SmallVector<Object, 4> objects;
	while (!pending.empty()) {
		Value *base = pending.front().base;
		SmallVector<Pending, 8> own, rest;
		for (const Pending &one : pending)
			(one.base == base ? own : rest).push_back(one);
		llvm::sort(own, [](const Pending &a, const Pending &b) { return a.offset < b.offset; });
		SmallVector<Pending, 8> joined;
		for (const Pending &one : own) {
			if (!joined.empty()) {
				Pending &last = joined.back();
				int64_t end = last.offset + int64_t(last.bytes);
				// Only what was stored: bytes between belong to others.
				if (one.offset <= end && (one.offset < end || last.bytes + one.bytes <= last.alignment)) {
					last.bytes = std::max(end, one.offset + int64_t(one.bytes)) - last.offset;
					continue;
				}
			}
			joined.push_back(one);
		}
		IRBuilder<> builder(before);
		Value *at = address(builder, base);
		bool isNear = joined.back().offset - joined.front().offset < pageBytes / 2;
		bool isSmall = llvm::all_of(joined, [](const Pending &one) { return one.bytes <= sequenceBytesMax; });
		if (isNear && isSmall && isInPlace(joined)) {
			objects.push_back({at, joined});
			if (objects.size() == objectsInPlaceMax) {
				inPlace(builder, objects, true);
				objects.clear();
			}
			pending.assign(rest.begin(), rest.end());
			continue;
		}
		Value *first = builder.CreateAdd(at, ConstantInt::getSigned(word, joined.front().offset));
		Instruction *then = SplitBlockAndInsertIfThen(inWindow(builder, first), before, false);
		builder.SetInsertPoint(then);
		// Together up to a size; what is larger by itself.
		SmallVector<Pending, 8> together;
		uint64_t bytes = 0;
		auto end = [&] {
			if (!together.empty())
				put(builder, at, together);
			together.clear();
			bytes = 0;
		};
		for (const Pending &one : joined) {
			if (one.bytes > sequenceBytesMax) {
				wrote(builder, builder.CreateAdd(at, ConstantInt::getSigned(word, one.offset)),
				      ConstantInt::get(word, one.bytes));
				continue;
			}
			bool isNear = together.empty() || one.offset - together.front().offset < pageBytes / 2;
			if (!isNear || bytes + one.bytes > sequenceBytesMax)
				end();
			together.push_back(one);
			bytes += one.bytes;
		}
		end();
		pending.assign(rest.begin(), rest.end());
	}
	if (!objects.empty()) {
		IRBuilder<> builder(before);
		inPlace(builder, objects, true);
	}
}

/// True for plain stores, and copies of few bytes, whose size is known.
bool Barrier::isWrite(Instruction *instruction, Write &write)
{
	if (auto *store = dyn_cast<StoreInst>(instruction)) {
		Value *value = store->getValueOperand();
		TypeSize size = layout.getTypeStoreSize(value->getType());
		if (store->isAtomic() || size.isScalable())
			return false;
#if LLVM_VERSION_MAJOR >= 16
		uint64_t bytes = size.getFixedValue();
#else
		uint64_t bytes = size.getFixedSize();
#endif
		bool isWhole = layout.getTypeSizeInBits(value->getType()) == 8 * bytes;
		write = {store->getPointerOperand(), bytes, store->getAlign().value(), isWhole ? value : nullptr};
		return true;
	}
	auto *copy = dyn_cast<MemIntrinsic>(instruction);
	auto *length = copy ? dyn_cast<ConstantInt>(copy->getLength()) : nullptr;
	if (!length || copy->isVolatile() || length->getZExtValue() > sequenceBytesMax || length->isZero())
		return false;
	write = {copy->getRawDest(), length->getZExtValue(), copy->getDestAlign().valueOrOne().value(), nullptr};
	return true;
}

void Barrier::note(SmallVectorImpl<Pending> &pending, Instruction *store, const Write &write)
{
	if (ranged.count(store) || isOutside(write.pointer))
		return;
	APInt offset(layout.getIndexTypeSizeInBits(write.pointer->getType()), 0);
	Value *base = write.pointer->stripAndAccumulateConstantOffsets(layout, offset, true);
	for (Pending &other : pending)
		if (other.base == base && other.offset <= offset.getSExtValue() &&
		    offset.getSExtValue() + int64_t(write.bytes) <= other.offset + int64_t(other.bytes)) {
			other.value = nullptr;
			return;
		}
	pending.push_back({base, offset.getSExtValue(), write.bytes, write.alignment, write.value});
}

/// Ends the program where a pointer is in the region, before an instruction that cannot be mirrored.
void Barrier::refuseAt(Instruction *before, Value *pointer, const std::string &what)
{
	if (isOutside(pointer))
		return;
	IRBuilder<> builder(before);
	Value *at = address(builder, pointer);
	Instruction *then = SplitBlockAndInsertIfThen(inWindow(builder, at), before, false);
	builder.SetInsertPoint(then);
	FunctionCallee callee = module.getOrInsertFunction("rv_mirror_refuse", builder.getVoidTy(), word);
	Value *text = builder.CreateGlobalStringPtr(place(before) + ": " + what);
	builder.CreateCall(callee, {address(builder, text)});
}

/// An atomic operation, which in the region is made by the library, which orders it with freezes.
void Barrier::atomic(Instruction *instruction, Value *pointer, Type *type)
{
	if (isOutside(pointer))
		return;
	uint64_t bytes = layout.getTypeStoreSize(type);
	if (bytes > 8) {
		tell(instruction, "an atomic operation of " + std::to_string(bytes) +
		                      " bytes is refused where its address is in the region");
		refuseAt(instruction, pointer, "an atomic operation of more than 8 bytes");
		return;
	}
	IRBuilder<> builder(instruction);
	Value *at = address(builder, pointer);
	Instruction *then, *otherwise;
	SplitBlockAndInsertIfThenElse(inWindow(builder, at), instruction, &then, &otherwise);
	BasicBlock *behindBoth = instruction->getParent();
	IntegerType *own = builder.getIntNTy(bytes * 8);
	auto toWord = [&](Value *value) {
		if (value->getType()->isPointerTy())
			value = builder.CreatePtrToInt(value, own);
		return builder.CreateZExt(builder.CreateBitCast(value, own), word);
	};
	auto fromWord = [&](Value *value) {
		value = builder.CreateTrunc(value, own);
		return type->isPointerTy() ? builder.CreateIntToPtr(value, type) : builder.CreateBitCast(value, type);
	};
	builder.SetInsertPoint(then);
	Value *size = builder.getInt32(bytes), *result = nullptr;
	FunctionCallee modify = module.getOrInsertFunction("rv_mirror_modify", word, word, builder.getInt32Ty(),
	                                                   builder.getInt32Ty(), word);
	if (auto *store = dyn_cast<StoreInst>(instruction)) {
		builder.CreateCall(modify, {at, size, builder.getInt32(0), toWord(store->getValueOperand())});
	} else if (auto *change = dyn_cast<AtomicRMWInst>(instruction)) {
		static const struct {
			AtomicRMWInst::BinOp operation;
			unsigned number;
		} operations[] = {
			{AtomicRMWInst::Xchg, 0}, {AtomicRMWInst::Add, 1}, {AtomicRMWInst::Sub, 2},
			{AtomicRMWInst::And, 3}, {AtomicRMWInst::Nand, 4}, {AtomicRMWInst::Or, 5},
			{AtomicRMWInst::Xor, 6}, {AtomicRMWInst::Max, 7}, {AtomicRMWInst::Min, 8},
			{AtomicRMWInst::UMax, 9}, {AtomicRMWInst::UMin, 10}, {AtomicRMWInst::FAdd, 11},
			{AtomicRMWInst::FSub, 12},
#if LLVM_VERSION_MAJOR >= 15
			{AtomicRMWInst::FMax, 13}, {AtomicRMWInst::FMin, 14},
#endif
#if LLVM_VERSION_MAJOR >= 16
			{AtomicRMWInst::UIncWrap, 15}, {AtomicRMWInst::UDecWrap, 16},
#endif
		};
		int number = -1;
		for (auto &known : operations)
			if (known.operation == change->getOperation())
				number = int(known.number);
		if (number < 0) {
			tell(instruction, "an atomic operation that the library does not know");
			number = 99;
		}
		Value *old = builder.CreateCall(modify, {at, size, builder.getInt32(unsigned(number)),
		                                         toWord(change->getValOperand())});
		result = fromWord(old);
	} else {
		auto *exchange = cast<AtomicCmpXchgInst>(instruction);
		FunctionCallee callee = module.getOrInsertFunction("rv_mirror_compare_exchange", word, word,
		                                                   builder.getInt32Ty(), word, word);
		Value *expected = toWord(exchange->getCompareOperand());
		Value *old = builder.CreateCall(callee, {at, size, expected, toWord(exchange->getNewValOperand())});
		Value *both = UndefValue::get(exchange->getType());
		both = builder.CreateInsertValue(both, fromWord(old), 0);
		result = builder.CreateInsertValue(both, builder.CreateICmpEQ(old, expected), 1);
	}
	instruction->moveBefore(otherwise);
	if (result) {
		builder.SetInsertPoint(&*behindBoth->begin());
		PHINode *phi = builder.CreatePHI(result->getType(), 2);
		instruction->replaceAllUsesWith(phi);
		phi->addIncoming(result, then->getParent());
		phi->addIncoming(instruction, otherwise->getParent());
	}
}

/// Lanes that a mask leaves out belong to others: each lane is copied for itself.
void Barrier::maskedStore(IntrinsicInst *call)
{
	Value *pointer = call->getArgOperand(1), *mask = call->getArgOperand(3);
	auto *type = dyn_cast<FixedVectorType>(call->getArgOperand(0)->getType());
	if (!type) {
		refuseAt(call, pointer, "a masked store of a scalable vector");
		return;
	}
	if (isOutside(pointer))
		return;
	uint64_t bytes = layout.getTypeStoreSize(type->getElementType());
	IRBuilder<> builder(behind(call));
	Value *at = address(builder, pointer);
	Instruction *then = SplitBlockAndInsertIfThen(inWindow(builder, at), &*builder.GetInsertPoint(), false);
	builder.SetInsertPoint(then);
	for (unsigned lane = 0; lane < type->getNumElements(); lane++)
		wrote(builder, builder.CreateAdd(at, ConstantInt::get(word, lane * bytes)),
		      builder.CreateSelect(builder.CreateExtractElement(mask, lane), ConstantInt::get(word, bytes),
		                           ConstantInt::get(word, 0)));
}

void Barrier::scatter(IntrinsicInst *call)
{
	auto *type = dyn_cast<FixedVectorType>(call->getArgOperand(0)->getType());
	if (!type) {
		tell(call, "a scattered store of a scalable vector is not mirrored");
		return;
	}
	Value *pointers = call->getArgOperand(1), *mask = call->getArgOperand(3);
	uint64_t bytes = layout.getTypeStoreSize(type->getElementType());
	IRBuilder<> builder(behind(call));
	for (unsigned lane = 0; lane < type->getNumElements(); lane++)
		wrote(builder, address(builder, builder.CreateExtractElement(pointers, lane)),
		      builder.CreateSelect(builder.CreateExtractElement(mask, lane), ConstantInt::get(word, bytes),
		                           ConstantInt::get(word, 0)));
}

void Barrier::compressStore(IntrinsicInst *call)
{
	auto *type = dyn_cast<FixedVectorType>(call->getArgOperand(0)->getType());
	Value *pointer = call->getArgOperand(1), *mask = call->getArgOperand(2);
	if (!type) {
		refuseAt(call, pointer, "a compressing store of a scalable vector");
		return;
	}
	uint64_t bytes = layout.getTypeStoreSize(type->getElementType());
	IRBuilder<> builder(behind(call));
	Value *count = ConstantInt::get(word, 0);
	for (unsigned lane = 0; lane < type->getNumElements(); lane++)
		count = builder.CreateAdd(count, builder.CreateZExt(builder.CreateExtractElement(mask, lane), word));
	wrote(builder, address(builder, pointer), builder.CreateMul(count, ConstantInt::get(word, bytes)));
}

void Barrier::visitIntrinsic(IntrinsicInst *call)
{
	if (auto *copy = dyn_cast<AnyMemIntrinsic>(call)) {
		if (isOutside(copy->getRawDest()))
			return;
		// What is a call of libc's otherwise is one of the library's own, which loads the bytes once (copies.rs).
		auto *transfer = dyn_cast<MemTransferInst>(call);
		if (transfer && !transfer->isVolatile() && !isa<MemCpyInlineInst>(call) && transfer->getSourceAddressSpace() == 0) {
			IRBuilder<> builder(call);
			FunctionCallee own = module.getOrInsertFunction("rv_mirror_copy", word, word, word, word);
			Value *to = address(builder, transfer->getRawDest()), *from = address(builder, transfer->getRawSource());
			builder.CreateCall(own, {to, from, builder.CreateZExtOrTrunc(transfer->getLength(), word)});
			call->eraseFromParent();
			hasReplaced = true;
			return;
		}
		IRBuilder<> builder(behind(call));
		Value *bytes = builder.CreateZExtOrTrunc(copy->getLength(), word);
		Value *at = address(builder, copy->getRawDest());
		Instruction *then = SplitBlockAndInsertIfThen(inWindow(builder, at), &*builder.GetInsertPoint(), false);
		builder.SetInsertPoint(then);
		wrote(builder, at, bytes);
		return;
	}
	switch (call->getIntrinsicID()) {
	case Intrinsic::masked_store:
		return maskedStore(call);
	case Intrinsic::masked_scatter:
		return scatter(call);
	case Intrinsic::masked_compressstore:
		return compressStore(call);
	case Intrinsic::lifetime_start:
	case Intrinsic::lifetime_end:
	case Intrinsic::invariant_start:
	case Intrinsic::invariant_end:
	case Intrinsic::prefetch:
	case Intrinsic::assume:
	case Intrinsic::vastart:
	case Intrinsic::vaend:
	case Intrinsic::vacopy:
		return;
	default:
		break;
	}
	if (!call->mayWriteToMemory())
		return;
	std::string what = "a store by " + call->getCalledFunction()->getName().str();
	for (unsigned index = 0; index < call->arg_size(); index++) {
		Value *operand = call->getArgOperand(index);
		Type *type = operand->getType();
		if (type->isVectorTy() && type->getScalarType()->isPointerTy())
			tell(call, what + " to several addresses is not mirrored");
		else if (type->isPointerTy() && !call->onlyReadsMemory(index))
			refuseAt(call, operand, what);
	}
}

/// True for code that writes no memory, whatever its clobbers say.
bool writesNothing(StringRef code)
{
	SmallVector<StringRef, 8> lines;
	code.split(lines, '\n');
	for (StringRef line : lines) {
		SmallVector<StringRef, 4> parts;
		line.split(parts, ';');
		for (StringRef part : parts) {
			StringRef name = part.trim(" \t").split(' ').first.split('\t').first;
			bool harmless = StringSwitch<bool>(name)
			                    .Cases("", "nop", "pause", "mfence", "lfence", "sfence", "rep", true)
			                    .Cases("cpuid", "rdtsc", "rdtscp", "xgetbv", "int3", "ud2", true)
			                    .Cases("rdpmc", "prefetcht0", "prefetchw", "endbr64", "clflush", true)
			                    .Default(beginsWith(name, "#"));
			if (!harmless)
				return false;
		}
	}
	return true;
}

void Barrier::visitAsm(CallBase *call)
{
	auto *code = cast<InlineAsm>(call->getCalledOperand());
	StringRef text = code->getAsmString();
	if (writesNothing(text))
		return;
	bool isLocked = text.contains("lock") || text.contains("xchg");
	bool clobbersMemory = false, hasPointer = false;
	unsigned argument = 0;
	SmallVector<std::pair<Value *, uint64_t>, 4> outputs;
	for (const InlineAsm::ConstraintInfo &constraint : code->ParseConstraints()) {
		if (constraint.Type == InlineAsm::isClobber) {
			for (const std::string &name : constraint.Codes)
				clobbersMemory |= name == "{memory}";
			continue;
		}
		bool isArgument = constraint.Type == InlineAsm::isInput ||
		                  (constraint.Type == InlineAsm::isOutput && constraint.isIndirect);
		if (!isArgument)
			continue;
		Value *operand = call->getArgOperand(argument);
		Type *element = constraint.isIndirect ? call->getAttributes().getParamElementType(argument) : nullptr;
#if LLVM_VERSION_MAJOR < 15
		if (constraint.isIndirect && !element && !cast<PointerType>(operand->getType())->isOpaque())
			element = operand->getType()->getPointerElementType();
#endif
		argument++;
		if (constraint.Type == InlineAsm::isOutput) {
			hasPointer = true;
			if (isLocked || !element)
				refuseAt(call, operand, "an atomic operation by inline assembly");
			else if (!isOutside(operand))
				outputs.push_back({operand, layout.getTypeStoreSize(element)});
		} else if (operand->getType()->isPointerTy() && clobbersMemory == false && !constraint.isIndirect) {
			// Whether it clobbers memory stands behind the operands: looked at below.
			hasPointer = true;
		}
	}
	if (clobbersMemory || call->mayWriteToMemory()) {
		for (Value *operand : call->args())
			if (operand->getType()->isPointerTy() && clobbersMemory) {
				bool isOutput = llvm::any_of(outputs, [&](auto &output) { return output.first == operand; });
				if (!isOutput)
					refuseAt(call, operand, "inline assembly that may write to memory");
			}
		if (clobbersMemory && !hasPointer)
			tell(call, "inline assembly may write to memory by an address that is not an operand; what it "
			           "writes into the region is not mirrored: name the memory as an output");
	}
	for (auto &output : outputs) {
		IRBuilder<> builder(behind(call));
		wrote(builder, address(builder, output.first), ConstantInt::get(word, output.second));
	}
}

void Barrier::visitLibrary(CallBase *call, const Writer &writer)
{
	Value *pointer = call->getArgOperand(writer.pointer);
	if (isOutside(pointer))
		return;
	IRBuilder<> builder(behind(call));
	Value *at = address(builder, pointer);
	Instruction *then = SplitBlockAndInsertIfThen(inWindow(builder, at), &*builder.GetInsertPoint(), false);
	builder.SetInsertPoint(then);
	Value *zero = ConstantInt::get(word, 0), *one = ConstantInt::get(word, 1), *bytes = zero;
	auto argument = [&](int index) { return builder.CreateZExtOrTrunc(call->getArgOperand(index), word); };
	auto result = [&] {
		Value *count = builder.CreateSExtOrTrunc(call, word);
		return builder.CreateSelect(builder.CreateICmpSGT(count, zero), count, zero);
	};
	switch (writer.length) {
	case Length::Argument:
		bytes = argument(writer.argument);
		break;
	case Length::Result:
		bytes = result();
		break;
	case Length::ResultTimes:
		bytes = builder.CreateMul(result(), argument(writer.argument));
		break;
	case Length::Constant:
		bytes = ConstantInt::get(word, writer.factor);
		break;
	case Length::Product:
		bytes = builder.CreateMul(argument(writer.argument), argument(writer.factor));
		break;
	case Length::String: {
		FunctionCallee length = module.getOrInsertFunction("rv_mirror_string_bytes", word, word);
		bytes = builder.CreateCall(length, {at});
		break;
	}
	case Length::Printed: {
		Value *printed = builder.CreateAdd(result(), one), *room = argument(writer.argument);
		bytes = builder.CreateSelect(builder.CreateICmpULT(printed, room), printed, room);
		break;
	}
	}
	wrote(builder, at, bytes);
}

void Barrier::visitCall(CallBase *call)
{
	if (call->isInlineAsm())
		return visitAsm(call);
	Function *callee = call->getCalledFunction();
	// A structure that a function returns in memory is written by a function that may not be
	// compiled so.
	if (call->hasStructRetAttr() && !isa<CallBrInst>(call) && !call->isMustTailCall()) {
		Value *result = call->getArgOperand(0);
		if (!isOutside(result) && (!callee || callee->isDeclaration())) {
			Type *type = call->getParamAttr(0, Attribute::StructRet).getValueAsType();
			IRBuilder<> builder(behind(call));
			wrote(builder, address(builder, result), ConstantInt::get(word, layout.getTypeStoreSize(type)));
		}
	}
	if (!callee)
		return;
	StringRef name = callee->getName(), own = containerFunction(name);
	if (callee->isDeclaration() && !own.empty()) {
		call->setCalledFunction(module.getOrInsertFunction(own, callee->getFunctionType()));
		return;
	}
	Writer writer;
	if (callee->isDeclaration() && libraryWriter(name, writer) && call->arg_size() > writer.pointer)
		return visitLibrary(call, writer);
	// Atomic operations of sizes that the processor does not have are calls.
	bool isAtomic = (beginsWith(name, "__atomic_") && !beginsWith(name, "__atomic_load")) ||
	                (beginsWith(name, "__sync_") && name != "__sync_synchronize");
	if (isAtomic && callee->isDeclaration() && name != "__atomic_thread_fence")
		for (Value *operand : call->args())
			if (operand->getType()->isPointerTy())
				refuseAt(call, operand, "an atomic operation by " + name.str());
}

/// Handles one instruction; returns false for one that only waits for its barrier.
bool Barrier::visit(Instruction *instruction, SmallVectorImpl<Pending> &pending)
{
	if (auto *store = dyn_cast<StoreInst>(instruction)) {
		if (!store->isAtomic()) {
			Write write;
			if (isWrite(store, write))
				note(pending, store, write);
			else
				refuseAt(store, store->getPointerOperand(), "a store of a scalable vector");
			mayBeInterrupted = store->isVolatile();
			if (mayBeInterrupted)
				flush(pending, store->getNextNode());
			mayBeInterrupted = false;
			return true;
		}
		flush(pending, instruction);
		atomic(store, store->getPointerOperand(), store->getValueOperand()->getType());
		return true;
	}
	if (auto *change = dyn_cast<AtomicRMWInst>(instruction)) {
		flush(pending, instruction);
		atomic(change, change->getPointerOperand(), change->getType());
		return true;
	}
	if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(instruction)) {
		flush(pending, instruction);
		atomic(exchange, exchange->getPointerOperand(), exchange->getNewValOperand()->getType());
		return true;
	}
	Write copy;
	if (isWrite(instruction, copy)) {
		note(pending, instruction, copy);
		return true;
	}
	bool isCall = isa<CallBase>(instruction);
	bool orders = isCall || isa<FenceInst>(instruction) || instruction->isTerminator() ||
	              (isa<LoadInst>(instruction) && !cast<LoadInst>(instruction)->isUnordered());
	if (auto *intrinsic = dyn_cast<IntrinsicInst>(instruction))
		orders = intrinsic->mayWriteToMemory() && !isa<DbgInfoIntrinsic>(intrinsic) &&
		         !intrinsic->isLifetimeStartOrEnd();
	if (!orders)
		return false;
	flush(pending, instruction);
	if (auto *intrinsic = dyn_cast<IntrinsicInst>(instruction))
		visitIntrinsic(intrinsic);
	else if (isCall)
		visitCall(cast<CallBase>(instruction));
	return true;
}

/// Calls of library functions by pointers: the pointers are to functions that mirror behind the call.
bool Barrier::libraryPointers()
{
	SmallVector<std::pair<Function *, Writer>, 8> taken;
	for (Function &function : module) {
		Writer writer;
		if (function.isDeclaration() && function.hasAddressTaken() && libraryWriter(function.getName(), writer) &&
		    function.arg_size() > writer.pointer)
			taken.push_back({&function, writer});
	}
	for (auto &[function, writer] : taken) {
		std::string name = function->getName().str();
		if (function->isVarArg()) {
			std::string text = "retrovane-mirror: what is written by a pointer to " + name + " is not mirrored";
			module.getContext().diagnose(Refusal(text, strict ? DS_Error : DS_Warning));
			continue;
		}
		// One for all modules, so that such pointers are equal.
		Function *own = Function::Create(function->getFunctionType(), GlobalValue::LinkOnceODRLinkage,
		                                 "rv_mirror_through_" + name, module);
		own->addFnAttr(Attribute::NoRedZone);
		function->replaceUsesWithIf(own, [](Use &use) {
			auto *call = dyn_cast<CallBase>(use.getUser());
			return !call || !call->isCallee(&use);
		});
		IRBuilder<> builder(BasicBlock::Create(module.getContext(), "", own));
		SmallVector<Value *, 8> arguments;
		for (Argument &argument : own->args())
			arguments.push_back(&argument);
		CallInst *call = builder.CreateCall(function, arguments);
		if (call->getType()->isVoidTy())
			builder.CreateRetVoid();
		else
			builder.CreateRet(call);
		visitLibrary(call, writer);
	}
	return !taken.empty();
}

/// True if nothing in a loop can show its stores to another thread before the loop is left.
bool publishesNothing(Loop &loop)
{
	for (BasicBlock *block : loop.blocks())
		for (Instruction &instruction : *block) {
			if (auto *store = dyn_cast<StoreInst>(&instruction)) {
				if (!store->isUnordered() || store->isAtomic())
					return false;
			} else if (auto *load = dyn_cast<LoadInst>(&instruction)) {
				if (!load->isUnordered())
					return false;
			} else if (auto *call = dyn_cast<CallBase>(&instruction)) {
				auto *intrinsic = dyn_cast<IntrinsicInst>(call);
				auto *copy = dyn_cast<MemIntrinsic>(call);
				bool isCopy = copy && !copy->isVolatile();
				if (!intrinsic || (intrinsic->mayWriteToMemory() && !isCopy && !isa<DbgInfoIntrinsic>(intrinsic)))
					return false;
			} else if (instruction.isAtomic() || isa<FenceInst>(&instruction)) {
				return false;
			}
		}
	return true;
}

/// Finds the stores of an innermost loop that need one copy behind it.
void Barrier::findRanges(Loop &loop, Analyses &known, SmallVectorImpl<BehindLoop> &copies)
{
	if (!publishesNothing(loop))
		return;
	Write write;
	auto isCandidate = [&](Instruction &instruction) {
		return isWrite(&instruction, write) && !isOutside(write.pointer);
	};
	bool any = false;
	for (BasicBlock *block : loop.blocks())
		for (Instruction &instruction : *block)
			any |= isCandidate(instruction);
	if (!any)
		return;
	simplifyLoop(&loop, &known.dominators, &known.loops, &known.evolution, nullptr, nullptr, false);
	if (!loop.isLoopSimplifyForm())
		return;
	SmallVector<Range, 4> ranges;
	SmallVector<const SCEV *, 4> firsts;
	for (BasicBlock *block : loop.blocks())
		for (Instruction &instruction : *block) {
			if (!isCandidate(instruction) || !known.dominators.dominates(block, loop.getLoopLatch()))
				continue;
			const SCEV *pointer = known.evolution.getSCEV(write.pointer), *start = pointer;
			int64_t step = 0;
			if (auto *moving = dyn_cast<SCEVAddRecExpr>(pointer)) {
				auto *constant = dyn_cast<SCEVConstant>(moving->getStepRecurrence(known.evolution));
				if (moving->getLoop() != &loop || !moving->isAffine() || !constant)
					continue;
				start = moving->getStart();
				step = constant->getAPInt().getSExtValue();
			}
			if (!known.evolution.isLoopInvariant(start, &loop))
				continue;
			Range::Piece piece{&instruction, write, 0};
			bool isFound = false;
			for (unsigned index = 0; index < ranges.size() && !isFound; index++) {
				auto *distance = dyn_cast<SCEVConstant>(known.evolution.getMinusSCEV(start, firsts[index]));
				if (ranges[index].step != step || !distance)
					continue;
				piece.offset = distance->getAPInt().getSExtValue();
				if (piece.offset < ranges[index].pieces.front().offset)
					ranges[index].start = start;
				ranges[index].pieces.push_back(piece);
				llvm::sort(ranges[index].pieces, [](auto &a, auto &b) { return a.offset < b.offset; });
				isFound = true;
			}
			if (!isFound) {
				ranges.push_back({start, step, {piece}, 0});
				firsts.push_back(start);
			}
		}
	for (Range &range : ranges)
		if (range.covers())
			copyBehind(loop, known, range, copies);
}

/// Keeps in a register how far a range has come, for the copy at each way out of the loop.
void Barrier::copyBehind(Loop &loop, Analyses &known, Range &range, SmallVectorImpl<BehindLoop> &copies)
{
	SmallVector<BasicBlock *, 4> exiting, exits;
	loop.getExitingBlocks(exiting);
	loop.getUniqueExitBlocks(exits);
	// The loop is left behind all stores of a turn, or before them.
	auto isBehind = [&](BasicBlock *block) {
		return llvm::all_of(range.pieces, [&](const Range::Piece &piece) {
			return known.dominators.dominates(piece.store->getParent(), block);
		});
	};
	for (BasicBlock *block : exiting) {
		bool isBefore = llvm::all_of(range.pieces, [&](const Range::Piece &piece) {
			return known.dominators.properlyDominates(block, piece.store->getParent());
		});
		if (!isBefore && !isBehind(block))
			return;
	}
	for (BasicBlock *exit : exits)
		if (exit->isEHPad())
			return;
#if LLVM_VERSION_MAJOR >= 22
	SCEVExpander expander(known.evolution, "mirror");
#else
	SCEVExpander expander(known.evolution, layout, "mirror");
#endif
#if LLVM_VERSION_MAJOR >= 15
	bool isSafe = expander.isSafeToExpand(range.start);
#else
	bool isSafe = isSafeToExpand(range.start, known.evolution);
#endif
	if (!isSafe)
		return;
	BasicBlock *before = loop.getLoopPreheader(), *header = loop.getHeader();
	IRBuilder<> builder(before->getTerminator());
	Value *start = address(builder, expander.expandCodeFor(range.start, range.start->getType(), before->getTerminator()));
	Value *length = ConstantInt::get(word, range.bytes), *end = builder.CreateAdd(start, length);
	bool isUpward = range.step >= 0;
	// Upward: where the next byte will be. Downward: where the last one is.
	PHINode *reached = PHINode::Create(word, 2, "mirror.reached", &header->front());
	const Range::Piece &lowest = range.pieces.front();
	builder.SetInsertPoint(lowest.store);
	Value *now = address(builder, lowest.write.pointer);
	if (isUpward)
		now = builder.CreateAdd(now, length);
	reached->addIncoming(isUpward ? start : end, before);
	reached->addIncoming(now, loop.getLoopLatch());
	for (BasicBlock *exit : exits) {
		PHINode *last = PHINode::Create(word, 2, "mirror.last", &exit->front());
		for (BasicBlock *from : predecessors(exit))
			last->addIncoming(isBehind(from) ? now : reached, from);
		Instruction *place = &*exit->getFirstInsertionPt();
		builder.SetInsertPoint(place);
		Value *bytes = isUpward ? builder.CreateSub(last, start) : builder.CreateSub(end, last);
		copies.push_back({place, isUpward ? start : last, bytes, range.step == 0 ? range.bytes : 0,
		                  lowest.write.alignment});
	}
	for (const Range::Piece &piece : range.pieces)
		ranged.insert(piece.store);
}

void Barrier::insert(const BehindLoop &copy)
{
	IRBuilder<> builder(copy.before);
	Value *any = builder.CreateICmpNE(copy.bytes, ConstantInt::get(word, 0));
	Value *isWanted = builder.CreateAnd(inWindow(builder, copy.address), any);
	builder.SetInsertPoint(SplitBlockAndInsertIfThen(isWanted, copy.before, false));
	if (copy.fixed == 0 || copy.fixed > sequenceBytesMax)
		wrote(builder, copy.address, copy.bytes);
	else
		put(builder, copy.address, {Pending{copy.address, 0, copy.fixed, copy.alignment, nullptr}});
}

bool Barrier::run(Function &function, FunctionAnalysisManager &manager)
{
	if (function.isDeclaration() || function.hasFnAttribute(Attribute::Naked) ||
	    beginsWith(function.getName(), "rv_mirror_"))
		return false;
	size_t before = function.getInstructionCount();
	SmallVector<BehindLoop, 8> copies;
	if (!function.hasOptNone()) {
		Analyses known{manager.getResult<DominatorTreeAnalysis>(function), manager.getResult<LoopAnalysis>(function),
		               manager.getResult<ScalarEvolutionAnalysis>(function)};
		for (Loop *loop : known.loops.getLoopsInPreorder())
			if (loop->isInnermost())
				findRanges(*loop, known, copies);
	}
	// Blocks are split on the way: the instructions of each are those of before.
	SmallVector<SmallVector<Instruction *, 32>, 32> blocks;
	for (BasicBlock &block : function) {
		blocks.emplace_back();
		for (Instruction &instruction : block)
			blocks.back().push_back(&instruction);
	}
	for (const BehindLoop &copy : copies)
		insert(copy);
	for (auto &block : blocks) {
		SmallVector<Pending, 8> pending;
		for (Instruction *instruction : block)
			visit(instruction, pending);
	}
	bool changed = function.getInstructionCount() != before || hasReplaced;
	hasReplaced = false;
	// The barrier is called below the stack pointer's red zone.
	if (changed)
		function.addFnAttr(Attribute::NoRedZone);
	return changed;
}

struct MirrorBarrier : PassInfoMixin<MirrorBarrier> {
	PreservedAnalyses run(Module &module, ModuleAnalysisManager &analyses)
	{
		auto &manager = analyses.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
		Barrier barrier(module);
		bool changed = barrier.libraryPointers();
		barrier.findOutsideArguments();
		SmallVector<Function *, 32> functions;
		for (Function &function : module)
			functions.push_back(&function);
		for (Function *function : functions)
			changed |= barrier.run(*function, manager);
		return changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
	}
	static bool isRequired() { return true; }
};

} // namespace

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo()
{
	return {LLVM_PLUGIN_API_VERSION, "retrovane-mirror", "1", [](PassBuilder &builder) {
		        builder.registerOptimizerLastEPCallback(
		            [](ModulePassManager &manager, auto &&...) { manager.addPass(MirrorBarrier()); });
	        }};
}
