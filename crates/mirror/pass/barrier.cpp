// The compiler's part of the mirror: a pass for clang that has what stores to the region will overwrite saved
// while a checkpoint is copied.
//
//   clang -fpass-plugin=libretrovane-mirror-pass.so ...
//
// It runs behind all optimisations, so that it sees the stores that will be made. Before a store, compiled code
// compares one word of the library's with 0. Where it is another, code out of line calls rv_mirror_save, which looks
// itself whether the address is in the region and saves the bytes that are there. Stores of one block share a
// comparison, up to the next call, atomic or volatile access or fence: what another thread did behind a checkpoint can be
// seen only behind one of these, and a store that depends on it has a comparison of its own.
//
// A call of a library function that was not compiled so is preceded by the same, where it is known before how much it
// writes at most, and does not wait; else the library's own function of that name is called.
//
// Whatever else may write to memory is refused: at run time where its address is
// known and turns out to be in the region (rv_mirror_refuse), else by a warning, or an error
// with RETROVANE_MIRROR_PASS=strict in the environment.
//
// Deliberately absent: assumptions on types or aliases beyond what the object says that a
// pointer comes from.
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/DebugLoc.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
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
/// Addresses and sizes that one comparison has as operands: more of them would need more registers than there are.
constexpr size_t operandsMax = 4;
/// How many instructions that compute an address are moved before the comparison.
constexpr unsigned movedMax = 6;

/// How many bytes a library function that was not compiled with the pass writes at most.
enum class Length { Argument, Product, Constant };

struct Writer {
	unsigned pointer;
	Length length;
	int argument;
	int factor;
};

/// Library functions before whose calls it is known what they write at most, and which do not wait for anything.
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
		{"__mempcpy_chk", {0, Length::Argument, 2, -1}},
		{"bzero", {0, Length::Argument, 1, -1}},
		{"bcopy", {1, Length::Argument, 2, -1}},
		{"strncpy", {0, Length::Argument, 2, -1}},
		{"__strncpy_chk", {0, Length::Argument, 2, -1}},
		{"snprintf", {0, Length::Argument, 1, -1}},
		{"vsnprintf", {0, Length::Argument, 1, -1}},
		{"__snprintf_chk", {0, Length::Argument, 1, -1}},
		{"__vsnprintf_chk", {0, Length::Argument, 1, -1}},
		{"qsort", {0, Length::Product, 1, 2}},
		// What std::unordered_map keeps of when it grows.
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

/// A library function in whose place the library's own is called.
struct Replaced {
	const char *name, *own;
	/// Bits of the arguments through which it writes.
	unsigned written;
	/// Bits of the arguments that its own does not have.
	unsigned dropped;
	/// Argument with the size of the object that is written; where that is known the function itself is called. -1: none.
	int room;
};

/// Functions that may wait, between what is saved and what is stored, or of which only the end says how much they wrote.
const Replaced *replacedFunction(StringRef name)
{
	static const Replaced rows[] = {
		{"read", "rv_mirror_read", 1 << 1, 0, -1},
		{"__read_chk", "rv_mirror_read", 1 << 1, 1 << 3, -1},
		{"pread", "rv_mirror_pread", 1 << 1, 0, -1},
		{"pread64", "rv_mirror_pread", 1 << 1, 0, -1},
		{"__pread_chk", "rv_mirror_pread", 1 << 1, 1 << 4, -1},
		{"__pread64_chk", "rv_mirror_pread", 1 << 1, 1 << 4, -1},
		{"recv", "rv_mirror_recv", 1 << 1, 0, -1},
		{"__recv_chk", "rv_mirror_recv", 1 << 1, 1 << 3, -1},
		{"recvfrom", "rv_mirror_recvfrom", 1 << 1 | 1 << 4 | 1 << 5, 0, -1},
		{"__recvfrom_chk", "rv_mirror_recvfrom", 1 << 1 | 1 << 5 | 1 << 6, 1 << 3, -1},
		{"fread", "rv_mirror_fread", 1 << 0, 0, -1},
		{"__fread_chk", "rv_mirror_fread", 1 << 0, 1 << 1, -1},
		{"fgets", "rv_mirror_fgets", 1 << 0, 0, -1},
		{"__fgets_chk", "rv_mirror_fgets", 1 << 0, 1 << 1, -1},
		{"getrandom", "rv_mirror_getrandom", 1 << 0, 0, -1},
		{"readlink", "rv_mirror_readlink", 1 << 1, 0, -1},
		{"__readlink_chk", "rv_mirror_readlink", 1 << 1, 1 << 3, -1},
		{"sprintf", "rv_mirror_sprintf", 1 << 0, 0, -1},
		{"__sprintf_chk", "rv_mirror_sprintf", 1 << 0, 1 << 1 | 1 << 2, 2},
		{"vsprintf", "rv_mirror_vsprintf", 1 << 0, 0, -1},
		{"__vsprintf_chk", "rv_mirror_vsprintf", 1 << 0, 1 << 1 | 1 << 2, 2},
		{"strcpy", "rv_mirror_strcpy", 1 << 0, 0, -1},
		{"__strcpy_chk", "rv_mirror_strcpy", 1 << 0, 1 << 2, 2},
		{"stpcpy", "rv_mirror_stpcpy", 1 << 0, 0, -1},
		{"__stpcpy_chk", "rv_mirror_stpcpy", 1 << 0, 1 << 2, 2},
		{"strcat", "rv_mirror_strcat", 1 << 0, 0, -1},
		{"__strcat_chk", "rv_mirror_strcat", 1 << 0, 1 << 2, 2},
		{"strncat", "rv_mirror_strncat", 1 << 0, 0, -1},
		{"__strncat_chk", "rv_mirror_strncat", 1 << 0, 1 << 3, 3},
		// std::istream::read
		{"_ZNSi4readEPcl", "rv_mirror_istream_read", 1 << 1, 0, -1},
	};
	for (const Replaced &row : rows)
		if (name == row.name)
			return &row;
	return nullptr;
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

/// Bytes that will be stored: from a base on, as many as a number or a value says.
struct Piece {
	Value *base;
	int64_t offset;
	uint64_t bytes;
	Value *count;
};

/// Stores of a block that share a comparison, which is before the first of them.
struct Group {
	Instruction *first = nullptr;
	SmallVector<Piece, 8> pieces;
};

class Barrier {
	Module &module;
	const DataLayout &layout;
	IntegerType *word;
	bool strict;
	/// The library's word is reached by its distance.
	bool isNear;
	bool changed = false;
	SmallPtrSet<const Argument *, 32> outsideArguments;
	/// Where the instructions of the block are that is looked at.
	DenseMap<const Instruction *, unsigned> places;
	/// Calls in whose place others are.
	SmallVector<Instruction *, 8> replaced;

public:
	explicit Barrier(Module &module)
	    : module(module), layout(module.getDataLayout()), word(Type::getInt64Ty(module.getContext()))
	{
		const char *mode = std::getenv("RETROVANE_MIRROR_PASS");
		strict = mode && StringRef(mode) == "strict";
		isNear = module.getPICLevel() == PICLevel::NotPIC || module.getPIELevel() != PIELevel::Default;
	}

	bool run(Function &function);
	bool libraryPointers();
	void findOutsideArguments();

private:
	bool isAvailable(Value *value, Instruction *first, SmallVectorImpl<Instruction *> &moved);
	bool joins(const Group &group, const Piece &piece);
	void note(Group &group, Instruction *store, Value *pointer, uint64_t bytes, Value *count);
	void save(Instruction *before, Value *pointer, uint64_t bytes, Value *count = nullptr);
	void flush(Group &group);
	std::string comparison();
	Instruction *whileActive(Instruction *before);
	void willWrite(IRBuilder<> &builder, Value *address, Value *bytes);
	void visit(Instruction *instruction, Group &group);
	void visitStore(StoreInst *store, Group &group);
	void visitCall(CallBase *call);
	void visitIntrinsic(IntrinsicInst *call);
	void visitAsm(CallBase *call);
	void visitLibrary(CallBase *call, const Writer &writer);
	void visitAtomicCall(CallBase *call, StringRef name);
	void replace(CallBase *call, const Replaced &row);
	void maskedStore(IntrinsicInst *call);
	void scatter(IntrinsicInst *call);
	void compressStore(IntrinsicInst *call);
	void refuseAt(Instruction *before, Value *pointer, const std::string &what);
	void tell(Instruction *at, const std::string &what);
	std::string place(Instruction *at);
	Value *address(IRBuilder<> &builder, Value *pointer);
	Value *inWindow(IRBuilder<> &builder, Value *address);
	bool isOutside(Value *pointer);
	uint64_t storeBytes(Type *type);
};

Value *Barrier::address(IRBuilder<> &builder, Value *pointer)
{
	return builder.CreatePtrToInt(pointer, word);
}

Value *Barrier::inWindow(IRBuilder<> &builder, Value *address)
{
	return builder.CreateICmpEQ(builder.CreateLShr(address, windowBits), ConstantInt::get(word, windowKey));
}

/// 0 for a type whose size is not known when this is compiled.
uint64_t Barrier::storeBytes(Type *type)
{
	TypeSize size = layout.getTypeStoreSize(type);
	if (size.isScalable())
		return 0;
#if LLVM_VERSION_MAJOR >= 16
	return size.getFixedValue();
#else
	return size.getFixedSize();
#endif
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

/// Whether a value is there before the first store of a group, or can be: by instructions to be moved there.
bool Barrier::isAvailable(Value *value, Instruction *first, SmallVectorImpl<Instruction *> &moved)
{
	auto *instruction = dyn_cast<Instruction>(value);
	if (!instruction)
		return true;
	auto known = places.find(instruction);
	// What is of another block and is used in this one is there from its begin on.
	if (known == places.end() || known->second < places.lookup(first) || is_contained(moved, instruction))
		return true;
	auto *binary = dyn_cast<BinaryOperator>(instruction);
	bool isPure = isa<GetElementPtrInst>(instruction) || isa<CastInst>(instruction) || (binary && !binary->isIntDivRem());
	if (!isPure || moved.size() >= movedMax)
		return false;
	for (Value *operand : instruction->operands())
		if (!isAvailable(operand, first, moved))
			return false;
	moved.push_back(instruction);
	return moved.size() <= movedMax;
}

/// Whether a piece can be saved with the others: it has room among the operands, and its address can be had there.
bool Barrier::joins(const Group &group, const Piece &piece)
{
	SmallPtrSet<Value *, 8> operands{piece.base};
	if (piece.count)
		operands.insert(piece.count);
	for (const Piece &other : group.pieces) {
		operands.insert(other.base);
		if (other.count)
			operands.insert(other.count);
	}
	SmallVector<Instruction *, 8> moved;
	if (operands.size() > operandsMax || !isAvailable(piece.base, group.first, moved) ||
	    (piece.count && !isAvailable(piece.count, group.first, moved)))
		return false;
	for (Instruction *instruction : moved) {
		instruction->moveBefore(*group.first->getParent(), group.first->getIterator());
		places[instruction] = places.lookup(group.first) - 1;
	}
	return true;
}

/// A store is put into the group of those before it, or begins a new one.
void Barrier::note(Group &group, Instruction *store, Value *pointer, uint64_t bytes, Value *count)
{
	if ((!bytes && !count) || isOutside(pointer))
		return;
	APInt offset(layout.getIndexTypeSizeInBits(pointer->getType()), 0);
	Value *base = pointer->stripAndAccumulateConstantOffsets(layout, offset, true);
	Piece piece{base, offset.getSExtValue(), bytes, count};
	if (!isInt<32>(piece.offset))
		piece = {pointer, 0, bytes, count};
	if (group.first && !joins(group, piece))
		flush(group);
	if (!group.first)
		group.first = store;
	group.pieces.push_back(piece);
}

/// Has bytes saved before an instruction, by a comparison of its own.
void Barrier::save(Instruction *before, Value *pointer, uint64_t bytes, Value *count)
{
	Group alone;
	note(alone, before, pointer, bytes, count);
	flush(alone);
}

/// Sets the flags by whether a checkpoint is copied. A load and a test are two operations of the processor's; a comparison of
/// memory with a number and its branch are three.
std::string Barrier::comparison()
{
	if (isNear)
		return "movq rv_mirror_pass_2_active(%rip), %r10\ntestq %r10, %r10\n";
	return "movq rv_mirror_pass_2_active@GOTPCREL(%rip), %r10\nmovq (%r10), %r10\ntestq %r10, %r10\n";
}

/// The comparison for all stores of a group, and out of line what saves their bytes; neighbours are joined.
void Barrier::flush(Group &group)
{
	if (!group.first)
		return;
	IRBuilder<> builder(group.first);
	SmallVector<Value *, 8> operands;
	SmallVector<Type *, 8> types;
	std::string constraints, saves;
	auto operand = [&](Value *value, const char *constraint) {
		operands.push_back(value);
		types.push_back(value->getType());
		constraints += constraint;
		return "$" + std::to_string(operands.size() - 1);
	};
	SmallVector<Piece, 8> rest(group.pieces.begin(), group.pieces.end());
	DenseMap<Value *, std::string> counts;
	while (!rest.empty()) {
		Value *base = rest.front().base;
		SmallVector<Piece, 8> own, others, joined;
		for (const Piece &one : rest)
			(one.base == base ? own : others).push_back(one);
		llvm::stable_sort(own, [](const Piece &a, const Piece &b) { return a.offset < b.offset; });
		for (const Piece &one : own) {
			Piece *last = joined.empty() ? nullptr : &joined.back();
			if (last && !last->count && !one.count && one.offset <= last->offset + int64_t(last->bytes))
				last->bytes = std::max(last->bytes, uint64_t(one.offset - last->offset) + one.bytes);
			else
				joined.push_back(one);
		}
		// As an address, not in a register: what computes it is part of the instruction, here and at the store.
#if LLVM_VERSION_MAJOR < 15
		base = builder.CreateBitCast(base, builder.getInt8PtrTy());
#endif
		std::string at = operand(base, "*m,");
		for (const Piece &one : joined) {
			saves += "leaq " + at + ", %r10\n";
			if (one.offset)
				saves += "addq $$" + std::to_string(one.offset) + ", %r10\n";
			if (one.count) {
				std::string &count = counts[one.count];
				if (count.empty())
					count = operand(builder.CreateZExtOrTrunc(one.count, word), "r,");
				saves += "movq " + count + ", %r11\ntestq %r11, %r11\njz 7f\n";
			} else {
				saves += (isUInt<32>(one.bytes) ? "movl $$" : "movabsq $$") + std::to_string(one.bytes) +
				         (isUInt<32>(one.bytes) ? ", %r11d\n" : ", %r11\n");
			}
			saves += std::string("call *rv_mirror_save@GOTPCREL(%rip)\n") + (one.count ? "7:\n" : "");
		}
		rest.assign(others.begin(), others.end());
	}
	std::string code = comparison() + "jne 9f\n8:\n"
	                   // Where a function is one of several alike, this is discarded with it.
	                   ".pushsection .text.rv_mirror_seldom, \"ax?\", @progbits\n9:\n" +
	                   saves + "jmp 8b\n.popsection\n";
	// These registers change, and no other is spilled.
	constraints += "~{r10},~{r11},~{memory},~{dirflag},~{fpsr},~{flags}";
	auto *type = FunctionType::get(builder.getVoidTy(), types, false);
	CallInst *call = builder.CreateCall(InlineAsm::get(type, code, constraints, true), operands);
	for (unsigned index = 0; index < operands.size(); index++)
		if (types[index]->isPointerTy())
			call->addParamAttr(index, Attribute::get(module.getContext(), Attribute::ElementType, builder.getInt8Ty()));
	group = Group();
	changed = true;
}

/// Where instructions are put that are for while a checkpoint is copied only.
Instruction *Barrier::whileActive(Instruction *before)
{
	IRBuilder<> builder(before);
	LoadInst *active = builder.CreateAlignedLoad(word, module.getOrInsertGlobal("rv_mirror_pass_2_active", word), Align(8));
	active->setAtomic(AtomicOrdering::Monotonic);
	Value *isActive = builder.CreateICmpNE(active, ConstantInt::get(word, 0));
	MDNode *seldom = MDBuilder(module.getContext()).createBranchWeights(1, 1 << 20);
	changed = true;
	return SplitBlockAndInsertIfThen(isActive, before, false, seldom);
}

/// Any address, and any number of bytes, 0 too.
void Barrier::willWrite(IRBuilder<> &builder, Value *address, Value *bytes)
{
	FunctionCallee callee = module.getOrInsertFunction("rv_mirror_will_write", builder.getVoidTy(), word, word);
	builder.CreateCall(callee, {address, bytes});
}

/// Ends the program where a pointer is in the region, before an instruction that is not covered.
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
	changed = true;
}

/// Lanes that a mask leaves out may be where nothing is mapped: each lane is saved for itself.
void Barrier::maskedStore(IntrinsicInst *call)
{
	Value *pointer = call->getArgOperand(1), *mask = call->getArgOperand(call->arg_size() - 1);
	auto *type = dyn_cast<FixedVectorType>(call->getArgOperand(0)->getType());
	if (!type) {
		refuseAt(call, pointer, "a masked store of a scalable vector");
		return;
	}
	if (isOutside(pointer))
		return;
	uint64_t bytes = storeBytes(type->getElementType());
	IRBuilder<> builder(whileActive(call));
	Value *at = address(builder, pointer);
	for (unsigned lane = 0; lane < type->getNumElements(); lane++)
		willWrite(builder, builder.CreateAdd(at, ConstantInt::get(word, lane * bytes)),
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
	Value *pointers = call->getArgOperand(1), *mask = call->getArgOperand(call->arg_size() - 1);
	uint64_t bytes = storeBytes(type->getElementType());
	IRBuilder<> builder(whileActive(call));
	for (unsigned lane = 0; lane < type->getNumElements(); lane++)
		willWrite(builder, address(builder, builder.CreateExtractElement(pointers, lane)),
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
	if (isOutside(pointer))
		return;
	uint64_t bytes = storeBytes(type->getElementType());
	IRBuilder<> builder(whileActive(call));
	Value *count = ConstantInt::get(word, 0);
	for (unsigned lane = 0; lane < type->getNumElements(); lane++)
		count = builder.CreateAdd(count, builder.CreateZExt(builder.CreateExtractElement(mask, lane), word));
	willWrite(builder, address(builder, pointer), builder.CreateMul(count, ConstantInt::get(word, bytes)));
}

void Barrier::visitIntrinsic(IntrinsicInst *call)
{
	if (auto *copy = dyn_cast<AnyMemIntrinsic>(call)) {
		auto *length = dyn_cast<ConstantInt>(copy->getLength());
		if (!length || !length->isZero())
			save(call, copy->getRawDest(), length ? length->getZExtValue() : 0, length ? nullptr : copy->getLength());
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
				outputs.push_back({operand, storeBytes(element)});
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
	for (auto &output : outputs)
		save(call, output.first, output.second);
}

void Barrier::visitLibrary(CallBase *call, const Writer &writer)
{
	Value *pointer = call->getArgOperand(writer.pointer);
	if (isOutside(pointer))
		return;
	IRBuilder<> builder(call);
	auto argument = [&](int index) { return builder.CreateZExtOrTrunc(call->getArgOperand(index), word); };
	switch (writer.length) {
	case Length::Argument:
		return save(call, pointer, 0, argument(writer.argument));
	case Length::Product:
		return save(call, pointer, 0, builder.CreateMul(argument(writer.argument), argument(writer.factor)));
	case Length::Constant:
		return save(call, pointer, writer.factor);
	}
}

/// Has a call made to the library's own function.
void Barrier::replace(CallBase *call, const Replaced &row)
{
	bool isNeeded = false;
	for (unsigned index = 0; index < call->arg_size(); index++)
		isNeeded |= (row.written >> index & 1) && !isOutside(call->getArgOperand(index));
	if (!isNeeded)
		return;
	FunctionType *type = call->getFunctionType();
	if (row.room >= 0 && unsigned(row.room) < call->arg_size()) {
		auto *room = dyn_cast<ConstantInt>(call->getArgOperand(row.room));
		if (room && !room->isMinusOne() && !room->isZero())
			return save(call, call->getArgOperand(0), room->getZExtValue());
	}
	changed = true;
	if (!row.dropped) {
		call->setCalledFunction(module.getOrInsertFunction(row.own, type));
		return;
	}
	SmallVector<Type *, 8> types;
	SmallVector<Value *, 8> arguments;
	for (unsigned index = 0; index < call->arg_size(); index++) {
		if (row.dropped >> index & 1)
			continue;
		arguments.push_back(call->getArgOperand(index));
		if (index < type->getNumParams())
			types.push_back(type->getParamType(index));
	}
	type = FunctionType::get(type->getReturnType(), types, type->isVarArg());
	FunctionCallee own = module.getOrInsertFunction(row.own, type);
	IRBuilder<> builder(call);
	CallBase *instead;
	if (auto *invoke = dyn_cast<InvokeInst>(call))
		instead = builder.CreateInvoke(own, invoke->getNormalDest(), invoke->getUnwindDest(), arguments);
	else
		instead = builder.CreateCall(own, arguments);
	call->replaceAllUsesWith(instead);
	// It goes when nothing looks at it any more.
	replaced.push_back(call);
}

/// Atomic operations of sizes that the processor does not have are calls.
void Barrier::visitAtomicCall(CallBase *call, StringRef name)
{
	auto pointer = [&](unsigned index) {
		return index < call->arg_size() && call->getArgOperand(index)->getType()->isPointerTy();
	};
	if (name == "__atomic_is_lock_free")
		return;
	bool isExpected = name.contains("compare_exchange");
	// The size is the end of the name, or the first argument.
	uint64_t bytes = 0;
	if (!name.rsplit('_').second.getAsInteger(10, bytes)) {
		if (pointer(0))
			save(call, call->getArgOperand(0), bytes);
		if (isExpected && beginsWith(name, "__atomic_") && pointer(1))
			save(call, call->getArgOperand(1), bytes);
		return;
	}
	if (name == "__atomic_load" || name == "__atomic_exchange") {
		unsigned result = name == "__atomic_load" ? 2 : 3;
		if (pointer(result))
			save(call, call->getArgOperand(result), 0, call->getArgOperand(0));
	}
	if (isExpected && pointer(2))
		save(call, call->getArgOperand(2), 0, call->getArgOperand(0));
	if (name != "__atomic_load" && pointer(1))
		save(call, call->getArgOperand(1), 0, call->getArgOperand(0));
}

void Barrier::visitCall(CallBase *call)
{
	if (call->isInlineAsm())
		return visitAsm(call);
	Function *callee = call->getCalledFunction();
	// A structure that a function returns in memory is written by a function that may not be
	// compiled so.
	if (call->hasStructRetAttr() && (!callee || callee->isDeclaration()))
		save(call, call->getArgOperand(0), storeBytes(call->getParamAttr(0, Attribute::StructRet).getValueAsType()));
	if (!callee || !callee->isDeclaration())
		return;
	StringRef name = callee->getName(), own = containerFunction(name);
	if (!own.empty()) {
		call->setCalledFunction(module.getOrInsertFunction(own, callee->getFunctionType()));
		changed = true;
		return;
	}
	if (const Replaced *row = replacedFunction(name))
		return replace(call, *row);
	Writer writer;
	if (libraryWriter(name, writer) && call->arg_size() > writer.pointer)
		return visitLibrary(call, writer);
	if (beginsWith(name, "__atomic_") || beginsWith(name, "__sync_"))
		visitAtomicCall(call, name);
}

void Barrier::visitStore(StoreInst *store, Group &group)
{
	Value *pointer = store->getPointerOperand();
	Type *type = store->getValueOperand()->getType();
	uint64_t bytes = storeBytes(type);
	if (isa<ScalableVectorType>(type)) {
		flush(group);
		refuseAt(store, pointer, "a store of a scalable vector");
	} else if (store->isVolatile() || store->isAtomic()) {
		flush(group);
		save(store, pointer, bytes);
	} else {
		note(group, store, pointer, bytes, nullptr);
	}
}

/// Handles one instruction: a store is put into the group, which ends at what has an order.
void Barrier::visit(Instruction *instruction, Group &group)
{
	if (auto *store = dyn_cast<StoreInst>(instruction))
		return visitStore(store, group);
	if (auto *change = dyn_cast<AtomicRMWInst>(instruction)) {
		flush(group);
		return save(change, change->getPointerOperand(), storeBytes(change->getType()));
	}
	if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(instruction)) {
		flush(group);
		return save(exchange, exchange->getPointerOperand(), storeBytes(exchange->getNewValOperand()->getType()));
	}
	auto *copy = dyn_cast<MemIntrinsic>(instruction);
	if (copy && !copy->isVolatile()) {
		auto *length = dyn_cast<ConstantInt>(copy->getLength());
		if (!length || !length->isZero())
			note(group, copy, copy->getRawDest(), length ? length->getZExtValue() : 0,
			     length ? nullptr : copy->getLength());
		return;
	}
	bool isCall = isa<CallBase>(instruction);
	bool orders = isCall || isa<FenceInst>(instruction) || instruction->isTerminator() ||
	              (isa<LoadInst>(instruction) && !cast<LoadInst>(instruction)->isUnordered());
	if (auto *intrinsic = dyn_cast<IntrinsicInst>(instruction))
		orders = intrinsic->mayWriteToMemory() && !isa<DbgInfoIntrinsic>(intrinsic) &&
		         !intrinsic->isLifetimeStartOrEnd();
	if (!orders)
		return;
	flush(group);
	if (auto *intrinsic = dyn_cast<IntrinsicInst>(instruction))
		visitIntrinsic(intrinsic);
	else if (isCall)
		visitCall(cast<CallBase>(instruction));
}

/// Calls of library functions by pointers: the pointers are to the library's own, or to functions that have bytes saved
/// before the call.
bool Barrier::libraryPointers()
{
	SmallVector<Function *, 8> taken;
	Writer writer;
	for (Function &function : module) {
		if (!function.isDeclaration() || !function.hasAddressTaken())
			continue;
		const Replaced *row = replacedFunction(function.getName());
		if (row ? !row->dropped : libraryWriter(function.getName(), writer) && function.arg_size() > writer.pointer)
			taken.push_back(&function);
	}
	for (Function *function : taken) {
		std::string name = function->getName().str();
		auto isPointer = [](Use &use) {
			auto *call = dyn_cast<CallBase>(use.getUser());
			return !call || !call->isCallee(&use);
		};
		if (const Replaced *row = replacedFunction(name)) {
			FunctionCallee own = module.getOrInsertFunction(row->own, function->getFunctionType());
			function->replaceUsesWithIf(own.getCallee(), isPointer);
			continue;
		}
		if (function->isVarArg()) {
			std::string text = "retrovane-mirror: what is written by a pointer to " + name + " is not mirrored";
			module.getContext().diagnose(Refusal(text, strict ? DS_Error : DS_Warning));
			continue;
		}
		// One for all modules, so that such pointers are equal.
		Function *own = Function::Create(function->getFunctionType(), GlobalValue::LinkOnceODRLinkage,
		                                 "rv_mirror_through_" + name, module);
		own->addFnAttr(Attribute::NoRedZone);
		function->replaceUsesWithIf(own, isPointer);
		IRBuilder<> builder(BasicBlock::Create(module.getContext(), "", own));
		SmallVector<Value *, 8> arguments;
		for (Argument &argument : own->args())
			arguments.push_back(&argument);
		CallInst *call = builder.CreateCall(function, arguments);
		if (call->getType()->isVoidTy())
			builder.CreateRetVoid();
		else
			builder.CreateRet(call);
		libraryWriter(name, writer);
		visitLibrary(call, writer);
	}
	return !taken.empty();
}

bool Barrier::run(Function &function)
{
	if (function.isDeclaration() || function.hasFnAttribute(Attribute::Naked) ||
	    beginsWith(function.getName(), "rv_mirror_"))
		return false;
	changed = false;
	// Blocks are split on the way: the instructions of each are those of before.
	SmallVector<SmallVector<Instruction *, 32>, 32> blocks;
	for (BasicBlock &block : function) {
		blocks.emplace_back();
		for (Instruction &instruction : block)
			blocks.back().push_back(&instruction);
	}
	for (auto &block : blocks) {
		places.clear();
		for (Instruction *instruction : block)
			places.insert({instruction, places.size() + 1});
		Group group;
		for (Instruction *instruction : block)
			visit(instruction, group);
		flush(group);
	}
	for (Instruction *call : replaced)
		call->eraseFromParent();
	replaced.clear();
	// What saves is called below the stack pointer's red zone.
	if (changed)
		function.addFnAttr(Attribute::NoRedZone);
	return changed;
}

struct MirrorBarrier : PassInfoMixin<MirrorBarrier> {
	PreservedAnalyses run(Module &module, ModuleAnalysisManager &)
	{
		Barrier barrier(module);
		bool changed = barrier.libraryPointers();
		barrier.findOutsideArguments();
		SmallVector<Function *, 32> functions;
		for (Function &function : module)
			functions.push_back(&function);
		for (Function *function : functions)
			changed |= barrier.run(*function);
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
